# SPDX-License-Identifier: Apache-2.0
"""Memory that has a place on a disk holds zombies. Cached pages: dropped file by file, which is the least that frees one; by a
vendor's reaper; by reclaim below a live parent; and as the last resort all over the host. Files that were dirty at death, and pages
in swap: on their way to a disk, or back."""

from collections.abc import Iterator

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.names import counted, shown, zombies_said
from zombiescope.facts.reaping import Levers
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.choice import Draft, Lever, Situation
from zombiescope.remedies.plan import (
    DropCaches,
    DropFiles,
    Flush,
    NamedFile,
    Reclaim,
    ReclaimWay,
    Risk,
    SetFile,
    SwapIn,
    Undo,
)

_RISKS = {
    ReclaimWay.MEMORY_RECLAIM: "in batches, watching memory pressure",
    ReclaimWay.MEMORY_HIGH: "every process below is slowed down until the limit is put back, seconds later",
    ReclaimWay.FORCE_EMPTY: "all cache below goes, and live memory may be swapped out; in a child with a time limit",
    ReclaimWay.NODE: "the whole host loses cache, in batches",
}
_ROOM = 2.0
"""Available memory must be this many times what is in swap."""


def drop_files(situation: Situation) -> Iterator[Draft]:
    """Cached pages of named files, clean and mapped by nobody: the least that frees a zombie. The files stay as they are."""
    wanted = situation.choices.of(Remedy.DROP_FILE)
    if wanted:
        yield Draft(
            "drop-files",
            f"drop the cached pages of {counted(len(wanted), 'file')}",
            DropFiles(tuple(NamedFile(lever.target, lever.inode, lever.device) for lever in wanted)),
            f"zombies are held by cached pages that nobody maps; the cost: {Remedy.DROP_FILE.cost}",
            "pinned-page-cache",
            "zombiescope autopsy --by file",
            Risk.LOW,
            Undo.NONE,
            pulls=frozenset(wanted),
        )


def vendor_reaper(situation: Situation) -> Iterator[Draft]:
    """Some vendors' kernels free zombies themselves when asked: a file to write 1 to, taken where it is there."""
    if situation.levers.vendor_reaper and situation.choices.of(Remedy.RECLAIM_PARENT):
        yield Draft(
            "vendor-reaper",
            "let this vendor's kernel reap its zombies",
            SetFile(situation.levers.vendor_reaper, b"1"),
            "the kernel has a reaper for zombie memory cgroups; it scans what reclaim would",
            "pinned-page-cache",
            "zombiescope scan",
            Risk.MEDIUM,
            Undo.NONE,
            needs_consent=True,
        )


def reclaim_parent(situation: Situation) -> Iterator[Draft]:
    """Reclaim at the nearest live parent of zombies: v2's memory.reclaim, memory.high where that is missing, v1's force_empty with
    consent, and the node's file for v1's root. Live siblings lose cache too."""
    hierarchy = situation.levers.hierarchy
    for lever in situation.choices.of(Remedy.RECLAIM_PARENT):
        found = _reclaim_file(situation.levers, hierarchy, lever.target) if hierarchy else None
        if found is None:
            continue
        way, files = found
        swapped = situation.choices.in_swap_cache(lever)
        size = situation.choices.pages[lever] + swapped
        yield Draft(
            f"reclaim:{shown(lever.target)}",
            f"reclaim below {shown(lever.target)} ({way})",
            Reclaim(lever.target, way, files, size * situation.page_bytes, swapped > 0),
            f"{_why(situation.choices.wanted[lever], swapped)}; the cost: {Remedy.RECLAIM_PARENT.cost}; {_RISKS[way]}",
            "pinned-page-cache" if swapped < situation.choices.wanted[lever] else "pinned-swap",
            "zombiescope scan",
            Risk.MEDIUM if way is ReclaimWay.MEMORY_RECLAIM and not swapped else Risk.HIGH,
            Undo.NONE,
            needs_consent=way is not ReclaimWay.MEMORY_RECLAIM or swapped > 0,
            pulls=frozenset({lever}),
        )


def _why(wanted: int, swapped: int) -> str:
    """Swapped in before they have left memory, pages stay the dead one's: that step comes after this one."""
    cached = f"{zombies_said(wanted - swapped, 'hold')} cached pages that no named file gives up"
    if not swapped:
        return cached
    kept = (
        f"{zombies_said(swapped, 'hold')} pages that were swapped out and are still in memory, which swapping in would leave "
        "theirs; live memory below may be swapped out with them"
    )
    return kept if swapped == wanted else f"{cached}; {kept}"


def drop_caches(situation: Situation) -> Iterator[Draft]:
    """The last resort, by name and never first: the whole host's clean cache, where cached pages hold zombies that no other lever
    of this host reaches."""
    unreached = [lever for lever in situation.choices.of(Remedy.RECLAIM_PARENT) if not _is_reached(situation, lever)]
    if unreached:
        zombies = sum(situation.choices.wanted[lever] for lever in unreached)
        yield Draft(
            "drop-caches",
            "last resort: drop every clean cached page of the host",
            DropCaches(),
            f"{zombies_said(zombies, 'hold')} cached pages below parents that have no reclaim file; every program reads its files "
            "anew, and mapped and dirty pages stay",
            "pinned-page-cache",
            "zombiescope scan",
            Risk.HIGH,
            Undo.NONE,
            needs_consent=True,
            pulls=frozenset(unreached),
        )


def _is_reached(situation: Situation, lever: Lever) -> bool:
    """What a recording does not tell counts as reached: all caches of a host are no remedy for a gap."""
    hierarchy = situation.levers.hierarchy
    return lever.target in situation.levers.untold or (
        hierarchy is not None and _reclaim_file(situation.levers, hierarchy, lever.target) is not None
    )


def _reclaim_file(levers: Levers, hierarchy: Hierarchy, parent: bytes) -> tuple[ReclaimWay, tuple[bytes, ...]] | None:
    """The root of v1 has none of its own: the nodes' files serve it, where they are."""
    if hierarchy.version is HierarchyVersion.V1 and parent == b"/":
        return (ReclaimWay.NODE, levers.node_reclaim) if levers.node_reclaim else None
    for way in (ReclaimWay.MEMORY_RECLAIM, ReclaimWay.MEMORY_HIGH, ReclaimWay.FORCE_EMPTY):
        place = hierarchy.place(parent, way.value.encode())
        if place in levers.control_files:
            return way, (place,)
    return None


def flush_writeback(situation: Situation) -> Iterator[Draft]:
    """Files dirty at death hold their cgroup through its writeback structure: write them, then let one cgroup die."""
    wanted = situation.choices.of(Remedy.FLUSH)
    if wanted:
        yield Draft(
            "flush",
            "write all dirty files back, then let one new cgroup die",
            Flush(b"/"),
            f"{zombies_said(situation.choices.wanted[wanted[0]], 'are')} held by files that were not written back; the cost: "
            f"{Remedy.FLUSH.cost}",
            "pinned-writeback",
            "zombiescope autopsy --by pin",
            Risk.LOW,
            Undo.NONE,
            pulls=frozenset(wanted),
        )


def swap_in(situation: Situation) -> Iterator[Draft]:
    """Swap entries made before a cgroup died keep it: swap is switched off and on, where memory has room for all that is in it."""
    wanted = situation.choices.of(Remedy.SWAP_IN)
    levers = situation.levers
    used = sum(area.used_bytes for area in levers.swaps)
    if not wanted or not levers.swaps or levers.available_bytes is None or levers.available_bytes < _ROOM * used:
        return
    yield Draft(
        "swap-in",
        "bring everything back from swap (swapoff, then swapon)",
        SwapIn(tuple(area.device for area in levers.swaps)),
        f"{zombies_said(situation.choices.wanted[wanted[0]], 'are')} held by swap entries made while they lived; the cost: "
        f"{Remedy.SWAP_IN.cost}",
        "pinned-swap",
        "cat /proc/swaps",
        Risk.HIGH,
        Undo.EXACT,
        needs_consent=True,
        pulls=frozenset(wanted),
    )
