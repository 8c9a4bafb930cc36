# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import Counter

from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import NAMED_KINDS, UNNAMED_KINDS, PagePins, PinnedFile, Proof
from zombiescope.facts.zombies import Pin, PinKind, Tier


def file(parent: bytes, kind: PinKind, pages: int) -> PinnedFile:
    return PinnedFile(parent, Pin(kind, None, b"/f", "tmpfs", "0:1", 1, pages, False), Proof.PARENT_OWNS_NONE)


def test_every_kind_is_either_named_or_said_not_to_be() -> None:
    assert set(PinKind) == NAMED_KINDS | UNNAMED_KINDS
    assert not NAMED_KINDS & UNNAMED_KINDS
    assert {PinKind.ANON, PinKind.SWAP, PinKind.SOCKET, PinKind.TASK, PinKind.CHILD} <= UNNAMED_KINDS


def test_pages_add_up_by_parent_and_kind() -> None:
    files = (file(b"/a", PinKind.TMPFS, 2), file(b"/a", PinKind.TMPFS, 3), file(b"/b", PinKind.MEMFD, 1))
    assert PagePins(files, {}, 3, 0).pages_by_parent() == {
        b"/a": Counter({PinKind.TMPFS: 5}),
        b"/b": Counter({PinKind.MEMFD: 1}),
    }


def test_its_walk_has_no_zombies_and_says_why() -> None:
    more = Gap("zombies[].pins", "time was short")
    walk = PagePins((), {}, 0, 0, (more,)).walk(live_count=7)
    assert (walk.tier, walk.zombies, walk.live_count) == (Tier.PAGES, (), 7)
    assert [gap.fact for gap in walk.gaps] == ["zombies", "zombies[].pins"]
    assert walk.gaps[0].reason and walk.gaps[0].hint
