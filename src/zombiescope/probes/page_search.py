# SPDX-License-Identifier: Apache-2.0
"""Pages that may be charged to zombies: the files to look into (in every tmpfs that any process can see, open, mapped, or in the
log folders), and of pages whose closest live memory cgroup is a parent, whether they are the parent's own or its zombies':
only what is proved is passed on.

Only file systems of this machine are opened: a file of a dead server or a stuck daemon would hold us for ever. v2 parents come
before the jury only when they hand memory on to their children, so they have none of their own. On v1 memory.stat has the
parent's own figure; where it is not 0, or the kernel does not count to the page, the pages are mapped to see which figure moves.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from itertools import chain
from typing import NamedTuple

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.page_pins import PinnedFile, Proof
from zombiescope.facts.zombies import Pin, PinKind
from zombiescope.host.access import Host, read_or_nothing
from zombiescope.host.live import LiveHost
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.kernel.file_pages import Candidate, Figures, FoundFile, measure
from zombiescope.kernel.mount_paths import Mount, MountTable, device_of, files_below, link_name, open_files, path_in
from zombiescope.kernel.pages import PAGES, ResidentWindow
from zombiescope.probes.kernel_text import cpu_list_count, flat_keyed, who_is

SHARED = frozenset({"tmpfs", "devtmpfs", "ramfs"})
LOCAL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "overlay", "erofs", "squashfs", "vfat", "exfat"}
)
LOG_FOLDERS = (b"/var/log",)
_NAMELESS = (b"/memfd:", b"/dev/zero (deleted)", b"/SYSV")
_DELETED = b" (deleted)"


class View(NamedTuple):
    """One mount namespace: how to reach its files, and what is mounted there."""

    prefix: bytes
    is_ours: bool
    table: MountTable


class Candidates:
    def __init__(self, host: LiveHost, processes: list[int]) -> None:
        self._host = host
        self._views: dict[int | bytes, View] = {}
        self._view_of: dict[int, View] = {}
        self.refused = 0
        """Processes whose open files or mappings could not be listed."""
        self._unreached: list[str] = []
        self._collect_views(processes)

    def shared_memory(self) -> Iterator[Candidate]:
        """Everything that can only be tmpfs: mounted ones, then what processes hold that has no name any more."""
        yield from self._tmpfs_files()
        yield from self._held(wants_disk=False)

    def disk_files(self) -> Iterator[Candidate]:
        yield from self._held(wants_disk=True)
        yield from self._log_files()

    def gaps(self) -> tuple[Gap, ...]:
        fact = "zombies[].pins"
        found = []
        if self._unreached:
            some = f"{len(self._unreached)} tmpfs mounts"
            found.append(Gap(fact, f"{some} could not be looked into, such as {', '.join(self._unreached[:3])}"))
        if self.refused:
            found.append(
                Gap(
                    fact,
                    f"the open files of {self.refused} processes could not be listed",
                    "run as root with CAP_SYS_PTRACE",
                )
            )
        return tuple(found)

    def _collect_views(self, processes: list[int]) -> None:
        root = self._host.root
        if not root:
            with suppress(OSError):
                own = self._host.inode(b"/proc/self/ns/mnt") or b""
                self._views[own] = View(b"", True, MountTable(self._host.read(b"/proc/self/mountinfo")))
        for process in processes:
            folder = b"/proc/%d" % process
            with suppress(OSError):
                key = self._namespace(folder)
                if key not in self._views:
                    table = MountTable(self._host.read(folder + b"/mountinfo"))
                    self._views[key] = View(root + folder + b"/root", False, table)
                self._view_of[process] = self._views[key]

    def _namespace(self, folder: bytes) -> int | bytes:
        """What tells one mount namespace from another; the table itself where the kernel will not say."""
        try:
            return self._host.inode(folder + b"/ns/mnt") or b""
        except OSError:
            return self._host.read(folder + b"/mountinfo")

    def _tmpfs_files(self) -> Iterator[Candidate]:
        for view, mount in self._tmpfs_mounts():
            top = view.prefix + mount.point
            try:
                for path in files_below(top, mount.device):
                    yield Candidate(path, path, path_in(mount, path[len(view.prefix) :]), mount.fstype)
            except OSError:
                self._unreached.append(shown(mount.point))

    def _tmpfs_mounts(self) -> list[tuple[View, Mount]]:
        """One way to each tmpfs, the whole of it if anybody sees the whole; our own namespace comes first."""
        whole: dict[str, tuple[View, Mount]] = {}
        parts: dict[tuple[str, bytes], tuple[View, Mount]] = {}
        covered: dict[str, str] = {}
        for view in self._views.values():
            for mount in view.table.mounts:
                if mount.fstype not in SHARED:
                    continue
                if view.table.is_covered(mount):
                    covered.setdefault(mount.device, shown(mount.point) + " (covered by another mount)")
                elif mount.root == b"/":
                    whole.setdefault(mount.device, (view, mount))
                else:
                    parts.setdefault((mount.device, mount.root), (view, mount))
        found = list(whole.values()) + [way for (device, _), way in parts.items() if device not in whole]
        reached = {mount.device for _, mount in found}
        self._unreached += [why for device, why in covered.items() if device not in reached]
        return found

    def _held(self, *, wants_disk: bool) -> Iterator[Candidate]:
        mapped: set[tuple[bytes, bytes]] = set()
        for process, view in self._view_of.items():
            files = chain(open_files(self._host.root + b"/proc/%d" % process), self._mapped_of(process, mapped))
            try:
                for link, name in files:
                    candidate = _held_candidate(link, name, view, process)
                    if candidate and (candidate.fstype in LOCAL) is wants_disk:
                        yield candidate
            except OSError as error:
                self.refused += isinstance(error, PermissionError) and not wants_disk

    def _mapped_of(self, process: int, seen: set[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """As `open_files` tells them."""
        folder = b"/proc/%d" % process
        for line in self._host.read(folder + b"/maps").split(b"\n"):
            fields = line.split(None, 5)
            if len(fields) < 6 or not fields[5].startswith(b"/") or (fields[3], fields[4]) in seen:
                continue
            seen.add((fields[3], fields[4]))
            first, _, last = fields[0].partition(b"-")
            # map_files writes addresses without the zeros that maps puts before short ones.
            link = self._host.root + folder + b"/map_files/%x-%x" % (int(first, 16), int(last, 16))
            # maps writes a newline as an escape and does not escape backslashes; the link has the name as it is.
            yield link, link_name(link) if b"\\" in fields[5] else fields[5]

    def _log_files(self) -> Iterator[Candidate]:
        for view in self._views.values():
            mounts = {view.table.of(folder): folder for folder in LOG_FOLDERS} if view.is_ours else {}
            for mount, folder in mounts.items():
                if mount is None or mount.fstype not in LOCAL:
                    continue
                with suppress(OSError):
                    for path in files_below(folder, device_of(folder)):
                        yield Candidate(path, path, path_in(mount, path), mount.fstype)


def _held_candidate(link: bytes, name: bytes, view: View, process: int) -> Candidate | None:
    if name.startswith(_NAMELESS):
        return Candidate(link, None, name[1:].removesuffix(_DELETED), "tmpfs", process, is_link=True)
    mount = view.table.of(name) if name.startswith(b"/") else None
    if mount is None or mount.fstype not in SHARED | LOCAL:
        return None
    return Candidate(link, view.prefix + name, path_in(mount, name), mount.fstype, process, is_link=True)


_SECONDS_UNTIL_STATISTICS_ARE_TRUE = 2.1  # the kernel adds them up every two seconds at the latest
_LARGEST_GROUP = 256
_CPUS, _KALLSYMS = b"/sys/devices/system/cpu/online", b"/proc/kallsyms"
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
        self._host, self._hierarchy, self._window = host, hierarchy, window
        self._cpus = cpu_list_count(read_or_nothing(host, _CPUS)) or 1
        self._who = cache(partial(who_is, host))

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
            if self._own_bytes(parent, is_shared) == 0 and self._counts_to_the_page:
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
        if shmem is None or is_shared:
            return shmem
        return None if cache is None else cache - shmem

    @cached_property
    def _counts_to_the_page(self) -> bool:
        return _COUNTS_EXACTLY in read_or_nothing(self._host, _KALLSYMS)

    def _probe(self, parent: bytes, group: list[Hit]) -> list[PinnedFile]:
        """Many at once; where the answer is mixed, each half."""
        files = [(hit.found.candidate, hit.found.length) for hit in group]
        answer = measure(self._window, files, partial(self._mapped, parent), self._cpus)
        if answer is None or not answer.below:
            return []
        if answer.own == 0 and answer.below == sum(hit.pages for hit in group):
            return [self._pinned(hit, hit.pages, Proof.MAPPED) for hit in group]
        if len(group) == 1:
            return [self._pinned(group[0], min(answer.below, group[0].pages), Proof.MAPPED)]
        middle = len(group) // 2
        return self._probe(parent, group[:middle]) + self._probe(parent, group[middle:])

    def _pinned(self, hit: Hit, pages: int, proof: Proof) -> PinnedFile:
        found, candidate = hit.found, hit.found.candidate
        path_in_fs = candidate.path_in_fs
        if found.path is None and path_in_fs is not None:
            path_in_fs = path_in_fs.removesuffix(_DELETED)
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

    def _mapped(self, parent: bytes) -> Figures:
        values = self._stat(parent)
        own, total = values.get(b"mapped_file", 0), values.get(b"total_mapped_file", 0)
        return Figures(own // PAGE_BYTES, (total - own) // PAGE_BYTES)

    def _stat(self, parent: bytes) -> dict[bytes, int]:
        return flat_keyed(read_or_nothing(self._host, self._hierarchy.place(parent, b"memory.stat")))


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
