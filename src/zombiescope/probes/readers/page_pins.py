# SPDX-License-Identifier: Apache-2.0
"""Files that are proved to hold pages of zombies, by nearest live parent: where the kernel's own lists cannot be walked.

/proc/kpagecgroup and /proc/kpageflags say whose pages are and what they are; /proc/iomem says which frames are memory.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from zombiescope.errors import ObservationError
from zombiescope.facts.cgroups import Hierarchy, MemoryUse, Residuals
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import PagePins
from zombiescope.facts.zombies import PinKind
from zombiescope.host.access import Host, read_or_nothing
from zombiescope.host.live import LiveHost
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.kernel.file_pages import Candidate, FilePages, FoundFile, attached, nameless_device
from zombiescope.kernel.mount_paths import IPC, run_inside
from zombiescope.kernel.pages import open_page_frames, open_window
from zombiescope.kernel.raw import kind_of_nameless
from zombiescope.probes.cgroups import hands_pages_on, paths_by_inode
from zombiescope.probes.kernel_text import number, read_processes, refusal
from zombiescope.probes.page_search import SHARED, Candidates, Hit, Jury

MOST_PIN_SECONDS = 30.0
FACT = "zombies[].pins"
_NO_PAGE_PINS = Gap(
    FACT,
    "this kernel hands the pages of a dead cgroup on to its parent: no file's page holds a zombie here",
    "look at sockets, tasks, namespaces, swap and files not yet on disk",
)

Progress = Callable[[str], None]


def read_page_pins(
    host: Host,
    hierarchy: Hierarchy,
    residuals: Residuals,
    seconds: float = MOST_PIN_SECONDS,
    progress: Progress = lambda _: None,
) -> PagePins | Gap:
    """`residuals` says below which live parents there are pages to be explained. A figure of 0 is no reason not to look: older
    kernels print memory.stat up to 32 pages a CPU too low."""
    if not isinstance(host, LiveHost):
        return Gap(FACT, "a recording holds files, not the machine's pages", "run zombiescope on the host itself")
    if not residuals.by_parent:
        return PagePins((), {}, 0, 0, _unsplit_gaps(residuals))
    if hands_pages_on(host):
        return PagePins((), {}, 0, 0, (_NO_PAGE_PINS,))
    if isinstance(processes := read_processes(host, FACT), Gap):
        return processes
    try:
        with open_page_frames(host.root) as frames, open_window() as window:
            parents = paths_by_inode(host, hierarchy, residuals.by_parent)
            look = _Look(host, FilePages(frames, window, parents), parents, seconds, progress)
            hits = look.all_hits(Candidates(host, processes), residuals.by_parent, processes)
            files, undecided = Jury(host, hierarchy, window).decide(hits)
            return PagePins(
                tuple(files), undecided, look.pages.files_seen, look.attached, look.gaps + _unsplit_gaps(residuals)
            )
    except ObservationError as error:
        return Gap(FACT, error.why, error.hint)
    except OSError as error:
        return Gap(FACT, f"the machine's pages could not be looked at: {error.strerror}", "run as root")


class _Look:
    """From candidates to hits, within the time."""

    def __init__(
        self, host: LiveHost, pages: FilePages, parents: dict[int, bytes], seconds: float, progress: Progress
    ) -> None:
        self._host, self.pages, self._parents = host, pages, parents
        self._end = host.monotonic() + seconds
        self._seconds, self._progress = seconds, progress
        self._nameless = nameless_device()
        self.attached = 0
        self.gaps: tuple[Gap, ...] = ()

    def all_hits(self, candidates: Candidates, wanted: Mapping[bytes, MemoryUse], processes: list[int]) -> list[Hit]:
        self._progress("looking at shared memory")
        hits = list(self._hits(self.pages.look(candidates.shared_memory(), self._is_over)))
        if _falls_short(hits, wanted):
            hits += self._all_segments(processes)
        self._progress("looking at open, mapped and log files")
        hits += self._hits(self.pages.look(candidates.disk_files(), self._is_over))
        self.gaps += candidates.gaps()
        if self._is_over():
            reason = f"not every file was looked at within {self._seconds:g} s"
            self.gaps += (Gap(FACT, reason, "give it more time"),)
        if self.pages.unreadable:
            self.gaps += (Gap(FACT, f"{self.pages.unreadable} files could not be opened or mapped"),)
        return hits

    def _is_over(self) -> bool:
        return self._host.monotonic() > self._end

    def _hits(self, files: Iterable[FoundFile]) -> Iterator[Hit]:
        for found in files:
            kind = self._kind(found)
            for inode, pages in found.pages.items():
                yield Hit(found, self._parents[inode], kind, pages)

    def _kind(self, found: FoundFile) -> PinKind:
        if found.device == self._nameless:
            return kind_of_nameless(found.candidate.path_in_fs or b"")
        return PinKind.TMPFS if found.candidate.fstype in SHARED else PinKind.PAGE_CACHE

    def _all_segments(self, processes: list[int]) -> list[Hit]:
        hits: list[Hit] = []
        refused = 0
        for link in _ipc_namespaces(self._host, processes):
            try:
                run_inside(self._host.root + link, IPC, lambda: hits.extend(self._segments()))
            except OSError:
                refused += 1
        if refused:
            reason = f"{refused} IPC namespaces could not be entered to look at SysV segments that nobody has attached"
            self.gaps += (Gap(FACT, reason, "run as root"),)
        return hits

    def _segments(self) -> Iterator[Hit]:
        """Those nobody has attached; the others were seen among the mappings."""
        for segment in detached_segments(self._host):
            if self._is_over():
                return
            try:
                with attached(segment.id) as address:
                    self.attached += 1
                    pages = self.pages.look_at(address, segment.pages)
            except OSError:
                continue
            candidate = Candidate(b"", None, b"SYSV%08x" % segment.key, "tmpfs")
            about = (self._nameless, segment.id, pages, sum(pages.values()), segment.pages, False)
            yield from self._hits([FoundFile(candidate, None, *about)])


class Segment(NamedTuple):
    key: int
    id: int
    pages: int


def _ipc_namespaces(host: LiveHost, processes: list[int]) -> list[bytes]:
    """A link to each that anybody shows."""
    found: dict[int, bytes] = {}
    for link in [b"/proc/self/ns/ipc", *(b"/proc/%d/ns/ipc" % process for process in processes)]:
        with suppress(OSError):
            found.setdefault(host.inode(link) or 0, link)
    return list(found.values())


def _falls_short(hits: Iterable[Hit], wanted: Mapping[bytes, MemoryUse]) -> bool:
    """Parent by parent: more found below one does not explain what is missing below another."""
    found: Counter[bytes] = Counter()
    for hit in hits:
        found[hit.parent] += hit.pages
    return any(found[parent] * PAGE_BYTES < use.shmem for parent, use in wanted.items())


def detached_segments(host: Host) -> list[Segment]:
    """/proc/sysvipc/shm of the IPC namespace we are in: resident and attached by nobody."""
    rows = [line.split() for line in read_or_nothing(host, b"/proc/sysvipc/shm").split(b"\n")[1:]]
    detached = [row for row in rows if len(row) >= 16 and number(row[6]) == 0 and number(row[14])]
    told = ((row[0], number(row[1]), number(row[3])) for row in detached if row[0].lstrip(b"-").isdigit())
    return [
        Segment(int(key) & 0xFFFFFFFF, identity, -(-size // PAGE_BYTES))
        for key, identity, size in told
        if identity is not None and size
    ]


def _unsplit_gaps(residuals: Residuals) -> tuple[Gap, ...]:
    if not residuals.unsplit:
        return ()
    reason = (
        f"{len(residuals.unsplit)} parents keep memory to themselves: a page cannot tell their own from their zombies'"
    )
    return (Gap(FACT, reason, "allow BPF or /proc/kcore"),)


_FACT = "totals.pages"
_MEMORY = re.compile(rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) : System RAM$", re.MULTILINE)


def try_page_frames(host: Host) -> Gap | None:
    """Why the pages of this machine cannot be read; None where they can."""
    if isinstance(ranges := _read_ranges(host), Gap):
        return ranges
    try:
        with open_page_frames(getattr(host, "root", b"")) as frames:
            frames.owners([ranges[0][0]])
    except ObservationError as error:
        return Gap(_FACT, error.why, error.hint)
    except OSError as error:
        return refusal(_FACT, b"/proc/kpagecgroup", error)
    return None


def _read_ranges(host: Host) -> list[tuple[int, int]] | Gap:
    if not isinstance(host, LiveHost):
        return Gap(_FACT, "a recording holds files, not the machine's pages", "run zombiescope on the host itself")
    try:
        ranges = frame_ranges(host.read(b"/proc/iomem"))
    except OSError as error:
        return refusal(_FACT, b"/proc/iomem", error)
    if sum(end - first for first, end in ranges) <= 1:
        return Gap(_FACT, "/proc/iomem does not say where the memory is", "run as root")
    return ranges


def frame_ranges(iomem: bytes) -> list[tuple[int, int]]:
    """First frame, and the one after the last, of each stretch of memory."""
    return [(int(first, 16) // PAGE_BYTES, (int(last, 16) + 1) // PAGE_BYTES) for first, last in _MEMORY.findall(iomem)]
