# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from zombiescope.facts.page_pins import NAMED_KINDS, UNNAMED_KINDS
from zombiescope.facts.zombies import PinKind


def test_every_kind_is_either_named_or_said_not_to_be() -> None:
    assert set(PinKind) == NAMED_KINDS | UNNAMED_KINDS
    assert not NAMED_KINDS & UNNAMED_KINDS
    assert {PinKind.ANON, PinKind.SWAP, PinKind.SOCKET, PinKind.TASK, PinKind.CHILD} <= UNNAMED_KINDS
