# SPDX-License-Identifier: Apache-2.0
"""Files whose pages may be charged to zombies: in every tmpfs that any process can see, open, mapped, or in the log folders.

Only file systems of this machine are opened: a file of a dead server or a stuck daemon would hold us for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.live import LiveHost
from zombiescope.kernel.file_pages import Candidate
from zombiescope.kernel.mount_paths import Mount, MountTable, device_of, files_below, link_name, open_files, path_in

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
            which = ", ".join(self._unreached[:3])
            found.append(Gap(fact, f"{len(self._unreached)} tmpfs mounts could not be looked into, such as {which}"))
        if self.refused:
            reason = f"the open files of {self.refused} processes could not be listed"
            found.append(Gap(fact, reason, "run as root with CAP_SYS_PTRACE"))
        return tuple(found)

    def _collect_views(self, processes: list[int]) -> None:
        root = self._host.root
        if not root:
            try:
                key: int | bytes | None = self._host.inode(b"/proc/self/ns/mnt")
                self._views[key or b""] = View(b"", True, MountTable(self._host.read(b"/proc/self/mountinfo")))
            except OSError:
                pass
        for process in processes:
            folder = b"/proc/%d" % process
            try:
                key = self._namespace(folder)
                view = self._views.get(key)
                if view is None:
                    text = self._host.read(folder + b"/mountinfo")
                    view = self._views.setdefault(key, View(root + folder + b"/root", False, MountTable(text)))
            except OSError:
                continue
            self._view_of[process] = view

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
                    inside = path[len(view.prefix) :]
                    yield Candidate(path, path, path_in(mount, inside), mount.fstype)
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
            try:
                yield from self._open_of(process, view, wants_disk)
                yield from self._mapped_of(process, view, wants_disk, mapped)
            except OSError as error:
                self.refused += isinstance(error, PermissionError) and not wants_disk

    def _open_of(self, process: int, view: View, wants_disk: bool) -> Iterator[Candidate]:
        for link, name in open_files(self._host.root + b"/proc/%d" % process):
            candidate = _held_candidate(link, name, view, process)
            if candidate and (candidate.fstype in LOCAL) is wants_disk:
                yield candidate

    def _mapped_of(
        self, process: int, view: View, wants_disk: bool, seen: set[tuple[bytes, bytes]]
    ) -> Iterator[Candidate]:
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
            name = link_name(link) if b"\\" in fields[5] else fields[5]
            candidate = _held_candidate(link, name, view, process)
            if candidate and (candidate.fstype in LOCAL) is wants_disk:
                yield candidate

    def _log_files(self) -> Iterator[Candidate]:
        for view in self._views.values():
            mounts = {view.table.of(folder): folder for folder in LOG_FOLDERS} if view.is_ours else {}
            for mount, folder in mounts.items():
                if mount is None or mount.fstype not in LOCAL:
                    continue
                try:
                    for path in files_below(folder, device_of(folder)):
                        yield Candidate(path, path, path_in(mount, path), mount.fstype)
                except OSError:
                    continue


def _held_candidate(link: bytes, name: bytes, view: View, process: int) -> Candidate | None:
    if name.startswith(_NAMELESS):
        return Candidate(link, None, name[1:].removesuffix(_DELETED), "tmpfs", process, is_link=True)
    mount = view.table.of(name) if name.startswith(b"/") else None
    if mount is None or mount.fstype not in SHARED | LOCAL:
        return None
    return Candidate(link, view.prefix + name, path_in(mount, name), mount.fstype, process, is_link=True)
