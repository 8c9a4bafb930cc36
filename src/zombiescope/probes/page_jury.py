# SPDX-License-Identifier: Apache-2.0
"""Pages whose closest live memory cgroup is a parent: the parent's own, or its zombies'? Only what is proved is passed on.

v2 parents come here only when they hand memory on to their children, so they have none of their own. On v1 memory.stat has the
parent's own figure; where it is not 0, or the kernel does not count to the page, the pages are mapped to see which figure moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.page_pins import PinnedFile, Proof
from zombiescope.facts.zombies import HeldBy, Pin, PinKind
from zombiescope.host.access import Host
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.kernel.file_pages import Figures, FoundFile, measure
from zombiescope.kernel.resident_window import PAGES, ResidentWindow
from zombiescope.probes.kernel_text import cpu_list_count, flat_keyed
from zombiescope.probes.processes import who_is

_SECONDS_UNTIL_STATISTICS_ARE_TRUE = 2.1  # the kernel adds them up every two seconds at the latest
_LARGEST_GROUP = 256
_CPUS = b"/sys/devices/system/cpu/online"
_KALLSYMS = b"/proc/kallsyms"
_COUNTS_EXACTLY = b" mem_cgroup_css_rstat_flush\n"
"""What adds every CPU's part up before memory.stat is read. Kernels without it leave some pages a CPU out: 0 may be sixty."""


class Hit(NamedTuple):
    """Pages of one file that belong to one parent or to zombies below it."""

    found: FoundFile
    parent: bytes
    kind: PinKind
    pages: int

    @property
    def is_shared(self) -> bool:
        return self.kind is not PinKind.PAGE_CACHE


class Jury:
    """The parent's own, or a zombie's?"""

    def __init__(self, host: Host, hierarchy: Hierarchy, window: ResidentWindow) -> None:
        self._host = host
        self._hierarchy = hierarchy
        self._window = window
        self._cpus = _online_cpus(host)
        self._known: dict[int, HeldBy] = {}
        self._is_exact: bool | None = None

    def decide(self, hits: Sequence[Hit]) -> tuple[list[PinnedFile], Counter[bytes]]:
        groups: dict[tuple[bytes, bool], list[Hit]] = {}
        for hit in hits:
            groups.setdefault((hit.parent, hit.is_shared), []).append(hit)
        proved: list[PinnedFile] = []
        undecided: Counter[bytes] = Counter()
        if self._hierarchy.version is HierarchyVersion.V2:
            return [self._pinned(hit, hit.pages, Proof.PARENT_HANDS_ON) for hit in hits], undecided
        if groups:
            self._host.wait(_SECONDS_UNTIL_STATISTICS_ARE_TRUE)
        for (parent, is_shared), group in groups.items():
            if self._own_bytes(parent, is_shared) == 0 and self._counts_to_the_page():
                proved += [self._pinned(hit, hit.pages, Proof.PARENT_OWNS_NONE) for hit in group]
                continue
            found = [file for part in _parts(group) for file in self._probe(parent, part)]
            proved += found
            missing = sum(hit.pages for hit in group) - sum(file.pin.pages or 0 for file in found)
            if missing:
                undecided[parent] += missing
        return proved, undecided

    def _own_bytes(self, parent: bytes, is_shared: bool) -> int | None:
        values = self._stat(parent)
        shmem, cache = values.get(b"shmem"), values.get(b"cache")
        if shmem is None or cache is None:
            return None
        return shmem if is_shared else cache - shmem

    def _counts_to_the_page(self) -> bool:
        if self._is_exact is None:
            try:
                self._is_exact = _COUNTS_EXACTLY in self._host.read(_KALLSYMS)
            except OSError:
                self._is_exact = False
        return self._is_exact

    def _probe(self, parent: bytes, group: list[Hit]) -> list[PinnedFile]:
        """Many at once; where the answer is mixed, each half."""
        files = [(hit.found.candidate, hit.found.length) for hit in group]
        answer = measure(self._window, files, lambda: self._mapped(parent), self._cpus)
        if answer is None or not answer.below:
            return []
        if answer.own == 0 and answer.below == sum(hit.pages for hit in group):
            return [self._pinned(hit, hit.pages, Proof.MAPPED) for hit in group]
        if len(group) == 1:
            return [self._pinned(group[0], min(answer.below, group[0].pages), Proof.MAPPED)]
        middle = len(group) // 2
        return self._probe(parent, group[:middle]) + self._probe(parent, group[middle:])

    def _pinned(self, hit: Hit, pages: int, proof: Proof) -> PinnedFile:
        found = hit.found
        candidate = found.candidate
        path_in_fs = candidate.path_in_fs
        if found.path is None and path_in_fs is not None:
            path_in_fs = path_in_fs.removesuffix(b" (deleted)")
        if path_in_fs is not None and not path_in_fs.startswith(b"/"):
            path_in_fs = b"/" + path_in_fs  # memfd, SysV and shared anonymous memory, as /proc/PID/maps writes them
        holder = None if candidate.holder is None else self._who(candidate.holder)
        pin = Pin(
            hit.kind,
            found.path,
            path_in_fs,
            candidate.fstype,
            found.device,
            found.inode,
            pages,
            found.is_part,
            holder=holder,
        )
        return PinnedFile(hit.parent, pin, proof, () if candidate.holder is None else (candidate.holder,))

    def _who(self, process: int) -> HeldBy:
        if process not in self._known:
            self._known[process] = who_is(self._host, process)
        return self._known[process]

    def _mapped(self, parent: bytes) -> Figures:
        values = self._stat(parent)
        own, total = values.get(b"mapped_file", 0), values.get(b"total_mapped_file", 0)
        return Figures(own // PAGE_BYTES, (total - own) // PAGE_BYTES)

    def _stat(self, parent: bytes) -> dict[bytes, int]:
        try:
            return flat_keyed(self._host.read(self._hierarchy.place(parent, b"memory.stat")))
        except OSError:
            return {}


def _parts(group: list[Hit]) -> Iterator[list[Hit]]:
    """Groups that fit the window. A file with pages of somebody else besides would move the wrong figures: it is left out."""
    part: list[Hit] = []
    room = PAGES
    for hit in group:
        if hit.found.resident != hit.pages or hit.found.length > PAGES or not hit.found.candidate.door:
            continue
        if hit.found.length > room or len(part) == _LARGEST_GROUP:
            yield part
            part, room = [], PAGES
        part.append(hit)
        room -= hit.found.length
    if part:
        yield part


def _online_cpus(host: Host) -> int:
    try:
        return cpu_list_count(host.read(_CPUS)) or 1
    except OSError:
        return 1
