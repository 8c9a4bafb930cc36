# SPDX-License-Identifier: Apache-2.0
"""Every physical page of the machine, by closest live memory cgroup and kind: a witness for the residual.

/proc/iomem says which frames are memory, /proc/kpagecgroup and /proc/kpageflags whose and what they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from zombiescope.errors import ObservationError
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import PageCensus, ParentPages
from zombiescope.host.access import Host
from zombiescope.host.live import LiveHost
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.kernel.page_frames import FrameCount, FrameKind, count_frames, open_page_frames
from zombiescope.probes.cgroups import paths_by_inode
from zombiescope.probes.kernel_text import refusal

MOST_SECONDS = 20.0
_FACT = "totals.pages"
_MEMORY = re.compile(rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) : System RAM$", re.MULTILINE)


def read_page_census(
    host: Host,
    hierarchy: Hierarchy,
    live: Iterable[bytes],
    seconds: float = MOST_SECONDS,
    progress: Callable[[float], None] = lambda _: None,
) -> PageCensus | Gap:
    """`live` is every live cgroup; `progress` is told the share that is done."""
    if not isinstance(host, LiveHost):
        return Gap(_FACT, "a recording holds files, not the machine's pages", "run zombiescope on the host itself")
    try:
        ranges = frame_ranges(host.read(b"/proc/iomem"))
    except OSError as error:
        return refusal(_FACT, b"/proc/iomem", error)
    total = sum(end - first for first, end in ranges)
    if total <= 1:
        return Gap(_FACT, "/proc/iomem does not say where the memory is", "run as root")
    stop = host.monotonic() + seconds

    def go_on(done: int) -> bool:
        progress(done / total)
        return host.monotonic() < stop

    try:
        with open_page_frames(host.root) as frames:
            count = count_frames(frames, ranges, go_on)
    except ObservationError as error:
        return Gap(_FACT, error.why, error.hint)
    except OSError as error:
        return refusal(_FACT, b"/proc/kpagecgroup", error)
    progress(1.0)
    return _census(count, total, paths_by_inode(host, hierarchy, live))


def try_page_frames(host: Host) -> Gap | None:
    """Why the pages of this machine cannot be read; None where they can."""
    if not isinstance(host, LiveHost):
        return Gap(_FACT, "a recording holds files, not the machine's pages", "run zombiescope on the host itself")
    try:
        ranges = frame_ranges(host.read(b"/proc/iomem"))
        if sum(end - first for first, end in ranges) <= 1:
            return Gap(_FACT, "/proc/iomem does not say where the memory is", "run as root")
        with open_page_frames(host.root) as frames:
            frames.chunk(ranges[0][0], 1)
    except ObservationError as error:
        return Gap(_FACT, error.why, error.hint)
    except OSError as error:
        return refusal(_FACT, b"/proc/kpagecgroup", error)
    return None


def frame_ranges(iomem: bytes) -> list[tuple[int, int]]:
    """First frame, and the one after the last, of each stretch of memory."""
    return [(int(first, 16) // PAGE_BYTES, (int(last, 16) + 1) // PAGE_BYTES) for first, last in _MEMORY.findall(iomem)]


def _census(count: FrameCount, total: int, paths: dict[int, bytes]) -> PageCensus:
    owners = {owner for owner, _ in count.by_owner}
    by_parent = {
        paths[owner]: ParentPages(*(count.by_owner[owner, kind] for kind in FrameKind))
        for owner in owners
        if owner in paths
    }
    strays = sum(pages for (owner, _), pages in count.by_owner.items() if owner not in paths)
    gaps = []
    if count.seen < total:
        reason = f"the time was used up after {count.seen} of {total} pages"
        gaps.append(Gap(_FACT, reason, "give it more time"))
    if count.hidden_tails:
        gaps.append(Gap(_FACT, f"this kernel does not tell the owner of {count.hidden_tails} pages of huge pages"))
    return PageCensus(by_parent, total, count.seen, strays, tuple(gaps))
