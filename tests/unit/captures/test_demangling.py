# SPDX-License-Identifier: Apache-2.0
"""Mangled names of C++ and Rust, names that only look so, and a machine without the library."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.captures.demangling import Demangler

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
