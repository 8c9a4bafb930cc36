# SPDX-License-Identifier: Apache-2.0
"""Each remedy alone is enough, least harm first; where it takes several they say so."""

from __future__ import annotations

import pytest

from zombiescope.analysis.freeing import (
    Aimed,
    Ways,
    actions_on,
    needs_of,
    remedies_of,
    remedies_on,
    ways_out,
)
from zombiescope.facts.remedies import LEVERS, Remedy
from zombiescope.facts.zombies import HeldBy, Pages, Pin, PinKind, References, Zombie


def pin(kind: PinKind, path: bytes | None = None, *, sampled: bool = False, mapped: int = 0, dirty: int = 0) -> Pin:
    return Pin(kind, path, path, "ext4", "8:1", 7, 1, sampled, mapped, dirty)


def zombie(*pins: Pin) -> Zombie:
    references = References(len(pins), len(pins), 0, 0, 0)
    return Zombie(9, 1, b"/a/dead", 2, b"/a", None, None, references, Pages(1, 0, 0, 0, 0), pins, None, None)


def remedies(*pins: Pin) -> tuple[Aimed, ...]:
    return remedies_of(zombie(*pins), pins)


def test_clean_page_cache_is_dropped_before_its_parent_is_reclaimed() -> None:
    assert remedies(pin(PinKind.PAGE_CACHE, b"/log")) == (
        Aimed(Remedy.DROP_FILE, "/log"),
        Aimed(Remedy.RECLAIM_PARENT, "/a"),
    )


@pytest.mark.parametrize(
    "troubled",
    [
        pin(PinKind.PAGE_CACHE, b"/log", mapped=1),
        pin(PinKind.PAGE_CACHE, b"/log", dirty=1),
        pin(PinKind.PAGE_CACHE, b"/log", sampled=True),
    ],
)
def test_dropping_is_not_promised_where_it_cannot_work(troubled: Pin) -> None:
    assert remedies(troubled) == (Aimed(Remedy.RECLAIM_PARENT, "/a"),)


def test_nobody_is_told_to_delete_a_file_whose_cache_can_go() -> None:
    assert Remedy.DELETE_FILE not in actions_on(pin(PinKind.PAGE_CACHE, b"/usr/bin/python3"))


def test_two_disk_files_are_one_reclaim() -> None:
    assert remedies(pin(PinKind.PAGE_CACHE, b"/x"), pin(PinKind.PAGE_CACHE, b"/y")) == (
        Aimed(Remedy.RECLAIM_PARENT, "/a"),
    )


def test_two_tmpfs_files_must_both_go() -> None:
    assert remedies(pin(PinKind.TMPFS, b"/dev/shm/x"), pin(PinKind.TMPFS, b"/dev/shm/y")) == (
        Aimed(Remedy.DELETE_FILE, "/dev/shm/x", together=True),
        Aimed(Remedy.DELETE_FILE, "/dev/shm/y", together=True),
    )


def test_page_cache_and_tmpfs_take_both_levers() -> None:
    assert {(r.action, r.together) for r in remedies(pin(PinKind.TMPFS, b"/t"), pin(PinKind.PAGE_CACHE, b"/f"))} == {
        (Remedy.DELETE_FILE, True),
        (Remedy.DROP_FILE, True),
    }


def test_a_file_in_memory_that_a_program_uses_goes_when_both_let_go() -> None:
    """Deleting alone frees nothing while it is open, and loses what is still written."""
    used = pin(PinKind.TMPFS, b"/dev/shm/a")._replace(holder=HeldBy(7, b"writer"))
    assert remedies(used) == (
        Aimed(Remedy.RESTART_PROCESS, "pid 7 (writer)", together=True),
        Aimed(Remedy.DELETE_FILE, "/dev/shm/a", together=True),
    )


def test_tmpfs_without_a_name_is_its_holders() -> None:
    assert remedies(pin(PinKind.TMPFS)) == (Aimed(Remedy.RESTART_PROCESS, "the holder of its tmpfs memory"),)


def test_what_is_in_the_swap_cache_takes_reclaim_as_well_as_swapping_in() -> None:
    entries = pin(PinKind.SWAP)._replace(mapped=None, dirty=None)
    assert remedies(entries) == (Aimed(Remedy.SWAP_IN, "all swap"),)
    assert remedies(pin(PinKind.SWAP), entries) == (
        Aimed(Remedy.RECLAIM_PARENT, "/a", together=True),
        Aimed(Remedy.SWAP_IN, "all swap", together=True),
    )


def test_what_nobody_can_name_ends_in_a_reboot() -> None:
    assert remedies(pin(PinKind.OTHER), pin(PinKind.TMPFS, b"/t")) == (Aimed(Remedy.REBOOT, "host"),)


def test_nothing_seen_means_wait() -> None:
    assert remedies() == (Aimed(Remedy.WAIT, "/a/dead"),)
    assert ways_out(()) == Ways(frozenset({Remedy.WAIT}))


@pytest.mark.parametrize("first", list(PinKind))
@pytest.mark.parametrize("second", list(PinKind))
@pytest.mark.parametrize("holder", [None, HeldBy(7, b"writer")])
def test_the_totals_count_what_the_rows_say(first: PinKind, second: PinKind, holder: HeldBy | None) -> None:
    pins = (pin(first, b"/file")._replace(holder=holder), pin(second, b"/other"))
    ways, row = ways_out([actions for each in pins for actions in needs_of(each)]), remedies(*pins)
    actions = {remedy.action for remedy in row}
    if ways.together:
        assert set(ways.together) <= actions
    elif len(actions) == 1 or not row[0].together:  # else two actions do less harm than the one that would do, too
        assert actions <= ways.alone


def test_where_the_zombie_is_not_seen_a_file_in_use_still_takes_both() -> None:
    used = pin(PinKind.TMPFS, b"/dev/shm/a")._replace(holder=HeldBy(7, b"writer"))
    assert remedies_on(used, b"/a") == remedies(used)


@pytest.mark.parametrize("kind", list(PinKind))
def test_every_kind_has_a_remedy_and_every_action_a_price(kind: PinKind) -> None:
    assert actions_on(pin(kind, b"/file"))
    assert all(remedy.action.cost for remedy in remedies(pin(kind, b"/file")))


def test_least_harm_comes_first() -> None:
    order = list(LEVERS)
    found = [order.index(remedy.action) for remedy in remedies(pin(PinKind.SOCKET), pin(PinKind.MEMFD))]
    assert found == sorted(found)
