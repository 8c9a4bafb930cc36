# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import NAMED_KINDS, UNNAMED_KINDS, PagePins
from zombiescope.facts.zombies import PinKind, Tier


def test_every_kind_is_either_named_or_said_not_to_be() -> None:
    assert set(PinKind) == NAMED_KINDS | UNNAMED_KINDS
    assert not NAMED_KINDS & UNNAMED_KINDS
    assert {PinKind.ANON, PinKind.SWAP, PinKind.SOCKET, PinKind.TASK, PinKind.CHILD} <= UNNAMED_KINDS


def test_its_walk_has_no_zombies_and_says_why() -> None:
    more = Gap("zombies[].pins", "time was short")
    walk = PagePins((), {}, 0, 0, (more,)).walk(live_count=7)
    assert (walk.tier, walk.zombies, walk.live_count) == (Tier.PAGES, (), 7)
    assert [gap.fact for gap in walk.gaps] == ["zombies", "zombies[].pins"]
    assert walk.gaps[0].reason and walk.gaps[0].hint
