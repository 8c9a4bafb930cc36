# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from zombiescope.analysis.useless import AT_REST, State, derive_useless, state_of
from zombiescope.facts.zombies import Pin, PinKind


def _cached(mapped: int = 0, dirty: int = 0) -> Pin:
    return Pin(PinKind.PAGE_CACHE, b"/f", b"/f", "ext4", "8:1", 7, 1, sampled=False, mapped=mapped, dirty=dirty)


def _told(*kinds: PinKind, state: State = AT_REST) -> set[tuple[str, bool]]:
    """What does not help, and whether it makes it worse."""
    return {(vain.action, vain.why.startswith("worse")) for vain in derive_useless({(kinds, state): 3})}


def test_clean_unmapped_page_cache_can_be_dropped_and_reclaimed() -> None:
    assert _told(PinKind.PAGE_CACHE) == set()


def test_dropping_skips_mapped_and_dirty_pages() -> None:
    both = state_of([_cached(mapped=2), _cached(dirty=1)])
    assert both == State(mapped=True, dirty=True)
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
