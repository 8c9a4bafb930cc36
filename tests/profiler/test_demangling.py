# SPDX-License-Identifier: Apache-2.0
"""Mangled names of C++ and Rust, names that only look so, and names that are made to do harm."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.profiler.files.reading import Choices, read_capture
from zombiescope.profiler.perf.cpp_names import cpp_name
from zombiescope.profiler.perf.frames import plain_name

RECORDED = [
    line.split("\t") for line in (Path(__file__).parent / "cpp_names.tsv").read_text(encoding="utf-8").splitlines()
]
"""Of libstdc++, LLVM and what else was installed, as c++filt -i of binutils 2.40 writes them: ten of each of thirty kinds, and some
at random."""


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
        (
            "_ZN3std4sync4Once5force28_$u7b$$u7b$closure$u7d$$u7d$17hf149d7dbd0754fbfE",
            "std::sync::Once::force::{{closure}}",
        ),
        ("_ZN4pyo33gil4POOL17hb2c48ead0c240fd1E.llvm.1504504654284914069", "pyo3::gil::POOL"),
        ("_Z3fooi.isra.0.cold", "foo(int) [clone .isra.0] [clone .cold]"),
        ("_ZN4Room4turnEm.part.0@plt", "Room::turn(unsigned long) [clone .part.0]@plt"),
        ("_Zgarbage", "_Zgarbage"),
        ("main", "main"),
        ("_Z" + "N" * 5000, "_Z" + "N" * 5000),
    ],
)
def test_a_name_is_shown_as_its_author_wrote_it(mangled: str, plain: str) -> None:
    assert plain_name(mangled) == plain


@given(st.text("_ZNSt0123456789ivEKRPI$.abch@", max_size=60))
def test_no_name_is_too_strange(name: str) -> None:
    assert plain_name("_Z" + name)


@pytest.mark.parametrize(("mangled", "plain"), RECORDED, ids=range(len(RECORDED)))
def test_real_names_of_cpp_are_written_as_binutils_writes_them(mangled: str, plain: str) -> None:
    assert plain_name(mangled) == plain


def test_the_names_that_are_installed_are_written_as_binutils_writes_them() -> None:
    library = next(iter(sorted(Path("/usr/lib").glob("*/libstdc++.so.6"))), None)
    if library is None or not shutil.which("c++filt") or not shutil.which("nm"):
        pytest.skip("no C++ library, or no binutils, is installed here")
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    names = sorted({line.split()[-1].partition("@")[0] for line in listed.splitlines() if " _Z" in line})
    said = subprocess.run(["c++filt", "-i"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    assert len(names) > 1000
    found = {name: (plain_name(name), plain) for name, plain in zip(names, said.splitlines(), strict=True)}
    assert {name: both for name, both in found.items() if both[0] != both[1]} == {}


def doubling(many: int) -> str:
    """Each argument is a template of the one before, twice."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    body = "1AIiiE"
    for number in range(many):
        back = f"S{digits[number]}_" if number < 36 else f"S{digits[number // 36]}{digits[number % 36]}_"
        body += f"S_I{back}{back}E"
    return f"_Z1f{body}"


def test_a_cpp_name_that_doubles_itself_is_left_alone() -> None:
    """The C++ runtime makes megabytes of the one with 20 doublings, and takes all the memory there is for a few more."""
    assert plain_name(doubling(3)).startswith("f(A<int, int>, A<A<int, int>, A<int, int> >, ")
    for many in (20, 24, 60, 200):
        assert plain_name(doubling(many)) == doubling(many)


@pytest.mark.parametrize(
    "name",
    [
        "_Z1f" + "P" * 8000 + "i",
        "_Z1fI" + "J" * 4000 + "E" * 4000,
        "_Z1fIJ" + "i" * 3000 + "EEv" + "DpT_" * 900,
        "_Z1fIJ" + "JE" * 2000 + "EEv" + "DpPT_" * 800,
        "_ZN" + "1a" * 4000 + "Ev",
        "_Z" + "Z1fvE" * 1500 + "1g",
        "_Z1fv" + "." * 4000,
        "_Z99999999999999999999a",
        "_Z1fS_",
        "_Z1fSZZZZZZZZZZ_",
        "_Z1fIiEvT0_",
        "_ZN1aE",
        "_ZNE",
        "_ZD1v",
        "_ZL",
        "_Z1fILE",
        "_Z1fDv",
        "_Z1fM",
        "_Z1fXE",
        "_Z1fDTE",
        "_Z1fIXsrEEvv",
        "_Zcv",
        "_ZThn",
        "_ZGR",
        "_Z" + "1a" * 5000,
    ],
)
def test_a_name_made_to_do_harm_stays(name: str) -> None:
    found = plain_name(name)
    assert len(found) <= max(len(name), 16_384)
    if name != "_ZN1aE":
        assert found == name


@given(st.integers(0, len(RECORDED) - 1), st.integers(2, 250), st.text("NSTZIJKRPOEDpt0123456789_LXCvUlM", max_size=4))
def test_no_change_to_a_real_name_is_too_strange(which: int, place: int, with_these: str) -> None:
    name = RECORDED[which][0]
    changed = name[:place] + with_these + name[place + len(with_these) // 2 :]
    assert cpp_name(changed) != ""


def test_mangled_names_in_other_tools_texts_are_written_plainly_too(tmp_path: Path) -> None:
    """perf of some distributions cannot: their texts have the linker's names. Two constructors of a class are one function then."""
    file = tmp_path / "stacks.txt"
    file.write_text("app;main;_ZN4RoomC1Ei 2\napp;main;_ZN4RoomC2Ei 3\napp;_Znonsense 1\n")
    names = read_capture(bytes(file), Choices()).frame_names
    assert names == ("app", "main", "Room::Room(int)", "_Znonsense")
    assert "_ZN4RoomC2Ei" in read_capture(bytes(file), Choices(demangle=False)).frame_names


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
    assert plain_name(mangled) == plain
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
    assert plain_name(name) == name


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
    assert plain_name("_RINvC1a1bTTuuETB8_B8_EEE") != "_RINvC1a1bTTuuETB8_B8_EEE", "a small one is written out"
    assert plain_name(f"_R{body}E") == f"_R{body}E"


@given(st.text("RCMXYNIBTSAFDEKLGspun_0123456789abcv", max_size=80))
def test_no_rust_name_is_too_strange(name: str) -> None:
    assert plain_name("_R" + name)
