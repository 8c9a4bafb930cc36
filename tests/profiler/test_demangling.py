# SPDX-License-Identifier: Apache-2.0
"""Mangled names of C++ and Rust, names that only look so, and a machine without the library."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.profiler.files.symbol_files import Demangler

HERE = Demangler()
needs_library = pytest.mark.skipif(not HERE.is_there, reason="no C++ runtime is installed: names stay as they are")


@needs_library
@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        ("_Z3foov", "foo()"),
        ("_Z3foov@plt", "foo()@plt"),
        ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)"),
        ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
        (
            "_ZN52_$LT$std..path..Path$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
            "<std::path::Path as core::fmt::Debug>::fmt",
        ),
        ("_Zgarbage", "_Zgarbage"),
        ("main", "main"),
        ("_Z" + "N" * 5000, "_Z" + "N" * 5000),
    ],
)
def test_a_name_is_shown_as_its_author_wrote_it(mangled: str, plain: str) -> None:
    assert HERE(mangled) == plain


@given(st.text("_ZNSt0123456789ivEKRPI$.abch@", max_size=60))
def test_no_name_is_too_strange(name: str) -> None:
    assert HERE("_Z" + name)


def test_without_the_library_names_stay() -> None:
    absent = Demangler(("libnone.so.0",))
    assert not absent.is_there
    assert absent("_Z3foov") == "_Z3foov"


RUST = (
    ("_RNvC6_123foo3bar", "123foo::bar"),
    ("_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y", "utf8_idents::საჭმელად_გემრიელი_სადილი"),
    ("_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}"),
    ("_RINvNtCs1234_3std3mem8align_ofdE", "std::mem::align_of::<f64>"),
    (
        "_RNCINkXs25_NgCsbmNqQUJIY6D_4core5sliceINyB9_4IterhENuNgNoBb_4iter8iterator8Iterator9rpositionNCNgNpB9_6memchr7memrchrs_0E0Bb_",
        (
            "<core::slice::Iter<u8> as core::iter::iterator::Iterator>::rposition::"
            "<core::slice::memchr::memrchr::{closure#1}>::{closure#0}"
        ),
    ),
    (
        "_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std",
        "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>",
    ),
    ("_RMC0INtC8arrayvec8ArrayVechKj7b_E", "<arrayvec::ArrayVec<u8, 123>>"),
    ("_RMCs4fqI2P2rA04_13const_genericINtB0_6SignedKanb_E", "<const_generic::Signed<-11>>"),
    ("_RMCs4fqI2P2rA04_13const_genericINtB0_4BoolKb0_E", "<const_generic::Bool<false>>"),
    ("_RMCs4fqI2P2rA04_13const_genericINtB0_4CharKc76_E", "<const_generic::Char<'v'>>"),
    ("_RMCs4fqI2P2rA04_13const_genericINtB0_3FooKpE", "<const_generic::Foo<_>>"),
    ("_RC3foo.llvm.9D1C9369", "foo"),
    ("_RNvXCs123_7mycrateNtB2_3FooNtB2_5Trait3bar", "<mycrate::Foo as mycrate::Trait>::bar"),
    ("_RINvC3foo3barFG_RL0_hEuE", "foo::bar::<for<'a> fn(&'a u8)>"),
    (
        "_RINvC3foo3barTlEAhj10_RShQePuOzFUKCmEyE",
        "foo::bar::<(i32,), [u8; 16], &[u8], &mut str, *const (), *mut !, EXTERN>",
    ),
)
_VERBOSE = re.compile(r"\[[0-9a-f]+\]|(?<=[0-9e'])(?:: [a-z0-9]+)(?=[>,\]])")


@pytest.mark.parametrize(("mangled", "plain"), RUST)
def test_a_rust_name_is_shown_as_its_author_wrote_it(mangled: str, plain: str) -> None:
    plain = plain.replace("EXTERN", 'unsafe extern "C" fn(u32) -> u64')
    assert HERE(mangled) == plain
    if shutil.which("c++filt"):
        said = subprocess.run(["c++filt", "-s", "rust", mangled], capture_output=True, text=True, check=True).stdout
        assert _VERBOSE.sub("", said.strip()) == plain


@pytest.mark.parametrize(
    "name",
    [
        "_R",
        "_RB_",
        "_RC0B_",
        "_RNvB0_3foo",
        "_RMC0" + "T" * 5000,
        "_RNvC3foo9bar",
        "_RINvC1aKc110000_E",
        "_RNvC99999999999999_a",
    ],
)
def test_what_is_no_rust_name_stays(name: str) -> None:
    assert HERE(name) == name


def test_a_name_that_doubles_itself_is_left_alone() -> None:
    """Each pair is twice the one before it: written out it would have 2**40 letters."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    body, before = "INvC1a1b", 0
    for number in range(40):
        begins = len(body)
        back = (
            "B" + (digits[before - 1] if before < 62 else digits[(before - 1) // 62] + digits[(before - 1) % 62]) + "_"
        )
        body += "TuuE" if not number else f"T{back}{back}E"
        before = begins
    assert HERE("_RINvC1a1bTTuuETB8_B8_EEE") != "_RINvC1a1bTTuuETB8_B8_EEE", "a small one is written out"
    assert HERE(f"_R{body}E") == f"_R{body}E"


@given(st.text("RCMXYNIBTSAFDEKLGspun_0123456789abcv", max_size=80))
def test_no_rust_name_is_too_strange(name: str) -> None:
    assert HERE("_R" + name)
