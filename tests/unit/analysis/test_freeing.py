# SPDX-License-Identifier: Apache-2.0
"""Each remedy alone is enough, least harm first; where it takes several they say so."""

from __future__ import annotations

import pytest

from zombiescope.analysis.freeing import (
    AT_REST,
    Aimed,
    CacheState,
    Ways,
    actions_on,
    derive_useless,
    needs_of,
    remedies_of,
    remedies_on,
    state_of,
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


def _cached(mapped: int = 0, dirty: int = 0) -> Pin:
    return Pin(PinKind.PAGE_CACHE, b"/f", b"/f", "ext4", "8:1", 7, 1, sampled=False, mapped=mapped, dirty=dirty)


def _told(*kinds: PinKind, state: CacheState = AT_REST) -> set[tuple[str, bool]]:
    """What does not help, and whether it makes it worse."""
    return {(vain.action, vain.why.startswith("worse")) for vain in derive_useless({(kinds, state): 3})}


def test_clean_unmapped_page_cache_can_be_dropped_and_reclaimed() -> None:
    assert _told(PinKind.PAGE_CACHE) == set()


def test_dropping_skips_mapped_and_dirty_pages() -> None:
    both = state_of([_cached(mapped=2), _cached(dirty=1)])
    assert both == CacheState(mapped=True, dirty=True)
    assert [vain.why.split(":")[0] for vain in derive_useless({((PinKind.PAGE_CACHE,), both): 2})] == [
        "it skips pages that a process maps; reclaim can take them",
        "it skips pages that are not written yet",
    ]
    assert state_of([_cached()]) == AT_REST


def test_shared_memory_is_no_cache_and_reclaiming_it_is_worse() -> None:
    for kind in (PinKind.TMPFS, PinKind.MEMFD, PinKind.SHARED_ANON, PinKind.SYSV_SHM):
        assert _told(kind) == {("drop_caches", False), ("reclaim_parent", True)}


def test_swap_is_worse_reclaimed_and_never_dropped() -> None:
    assert _told(PinKind.SWAP) == {("drop_caches", False), ("reclaim_parent", True)}


def test_what_holds_no_page_is_helped_by_nothing_about_memory() -> None:
    for kind in (PinKind.SOCKET, PinKind.TASK, PinKind.NAMESPACE, PinKind.WRITEBACK):
        assert _told(kind) == {("drop_caches", False), ("reclaim_parent", False)}


def test_each_zombie_counts_once_for_each_reason_most_first() -> None:
    counts = {((PinKind.TMPFS, PinKind.MEMFD), AT_REST): 5, ((PinKind.ANON,), AT_REST): 9}
    assert [(vain.action, vain.zombies) for vain in derive_useless(counts)] == [
        ("drop_caches", 9),
        ("drop_caches", 5),
        ("reclaim_parent", 5),
    ]
