# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kernel.btf_maker import BtfMaker

from zombiescope.kernel.btf import Btf, BtfError
from zombiescope.kernel.kcore import Layout


def made() -> bytes:
    maker = BtfMaker()
    inner = maker.structure("inner", 16, {"first": (maker.word, 0), "second": (maker.word, 8)})
    alias = maker.typedef("inner_t", inner)
    hidden = maker.structure("", 16, {"through": (maker.half, 4)})
    maker.structure(
        "outer",
        64,
        {"head": (maker.word, 0), "body": (alias, 8), "?": (hidden, 24), "row": (maker.array(inner, 3), 40)},
    )
    maker.enum("colour", {"RED": 4, "BLUE": -1})
    return maker.content()


def test_fields_are_found_through_aliases_and_nameless_members() -> None:
    btf = Btf(made(), ("outer", "inner", "colour"))
    assert btf.offset("outer.head") == 0
    assert btf.offset("outer.body.second") == 16
    assert btf.offset("outer.through") == 28
    assert (btf.size("outer.row"), btf.size("outer"), btf.size("outer.body")) == (48, 64, 16)
    assert (btf.enumerator("colour", "RED"), btf.enumerator("colour", "BLUE")) == (4, -1)


def test_what_is_not_there_is_none() -> None:
    btf = Btf(made(), ("outer", "missing", "colour"))
    assert btf.offset("outer.nothing") is None
    assert btf.offset("outer.head.deeper") is None
    assert btf.offset("missing.field") is None
    assert btf.offset("inner.first") is None, "not asked for, not remembered"
    assert btf.enumerator("colour", "GREEN") is None and btf.enumerator("outer", "RED") is None


def test_a_kernel_without_a_field_is_refused_by_its_name() -> None:
    with pytest.raises(BtfError, match=r"no field mem_cgroup\.css"):
        Layout(made())


def test_an_array_of_itself_is_refused() -> None:
    maker = BtfMaker()
    row = maker.array(maker.count + 1, 2)
    maker.structure("outer", 8, {"row": (row, 0)})
    with pytest.raises(BtfError, match="holds itself"):
        Btf(maker.content(), ("outer",)).size("outer.row")


@given(st.integers(0, len(made()) - 1))
def test_truncated_type_information_is_an_error_in_words(kept: int) -> None:
    with pytest.raises(BtfError):
        Btf(made()[:kept], ("outer",))


@given(st.integers(0, len(made()) - 1), st.integers(1, 255))
def test_changed_type_information_never_ends_in_a_traceback(place: int, change: int) -> None:
    content = bytearray(made())
    content[place] ^= change
    try:
        btf = Btf(bytes(content), ("outer", "inner", "colour"))
        for path in ("outer.body.second", "outer.through", "outer.row"):
            btf.offset(path)
            btf.size(path)
        btf.enumerator("colour", "BLUE")
    except BtfError:
        pass


@given(st.binary(max_size=400))
def test_garbage_never_ends_in_a_traceback(content: bytes) -> None:
    with pytest.raises(BtfError):
        Btf(b"\x9f\xeb\x01\x00" + content, ("outer",)).size("outer.row")
        raise BtfError("read to its end")
