# SPDX-License-Identifier: Apache-2.0
"""Done by hand: a kernel that hands a dead cgroup's pages to its parent, recognised by behaviour, never by its number. Moving to
cgroup v2 alone changes nothing: the pins are the same."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.facts.names import share_said
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.zombies import PinKind
from zombiescope.remedies.plan import AskHuman, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation

REMEDIES = (Remedy.NEWER_KERNEL,)

_OF_PAGES = (PinKind.PAGE_CACHE, PinKind.TMPFS, PinKind.MEMFD, PinKind.SHARED_ANON, PinKind.SYSV_SHM, PinKind.ANON)
_SHARE = 0.5


def propose(situation: Situation) -> Iterator[Draft]:
    held = situation.choices.held
    if situation.levers.hands_pages_on or not held:
        return
    by_pages = sum(all(pin.kind in _OF_PAGES for pin in each.body.pins) for each in held)
    if by_pages >= _SHARE * len(held):
        yield Draft(
            "newer-kernel",
            "for the next image: a kernel that hands a dead cgroup's pages to its parent",
            AskHuman(("grep -c lru_reparent_memcg /proc/kallsyms   # 1 or more: it does",)),
            f"{share_said(by_pages, len(held), 'zombies')} are held by pages alone, which such a kernel (mainline 7.1) prevents; "
            "moving to cgroup v2 without it leaves the same pins",
            "zombie-population",
            "zombiescope doctor on a machine with that kernel",
            Risk.MEDIUM,
            Undo.NONE,
        )
