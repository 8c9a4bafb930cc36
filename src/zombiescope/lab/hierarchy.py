# SPDX-License-Identifier: Apache-2.0
"""The memory hierarchy of this host, v1 or v2, as the lab needs it: make, enter and remove cgroups.

Reads /proc/self/mountinfo. On v2 the memory controller is handed down level by level (`cgroup.subtree_control`), and a
cgroup that hands it down may hold no process; v1 knows neither. Paths given and returned begin with `/` below the mount.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zombiescope.errors import ActionFailedError, ObservationError, ZombiescopeError, reason_of
from zombiescope.host.safe_paths import descriptor_of, held_open
from zombiescope.lab.places import LAB, STATE_ROOTS, make_private, refusal, text_of, why_foreign
from zombiescope.lab.processes import boot_id

BUSY_SECONDS = 5.0
_MOUNTS = "/proc/self/mountinfo"
_CONTROL = "cgroup.subtree_control"


@dataclass(frozen=True, slots=True)
class MemoryHierarchy:
    version: str
    """`v1` or `v2`."""
    mount: str

    @property
    def is_unified(self) -> bool:
        return self.version == "v2"

    def folder(self, path: str) -> str:
        return self.mount + path.rstrip("/")

    def file(self, path: str, name: str) -> str:
        return f"{self.folder(path)}/{name}"

    def make(self, path: str) -> int:
        """Makes one cgroup and returns its id, which is the inode of its folder."""
        try:
            os.mkdir(self.folder(path), 0o755)
            return os.stat(self.folder(path)).st_ino
        except OSError as error:
            raise refusal(f"cannot make the cgroup {path}", error) from error

    def make_parents(self, path: str) -> None:
        """Makes `path` and what is missing above it, fit to have children with a memory account of their own."""
        parts = path.strip("/").split("/")
        self.hand_down("/")
        for depth in range(1, len(parts) + 1):
            level = "/" + "/".join(parts[:depth])
            if not os.path.isdir(self.folder(level)):
                self._make_level(level)
            self.hand_down(level)

    def _make_level(self, level: str) -> None:
        try:
            os.mkdir(self.folder(level), 0o755)
        except FileExistsError:
            return
        except OSError as error:
            raise refusal(f"cannot make the cgroup {level}", error) from error
        if not self.is_unified:
            # Inherited by every child: no release agent may run for ours, and before 5.11 accounts did not add up to the parent.
            _set_quietly(self.file(level, "notify_on_release"), "0")
            _set_quietly(self.file(level, "memory.use_hierarchy"), "1")

    def hand_down(self, level: str) -> None:
        if not self.is_unified:
            return
        control = self.file(level, _CONTROL)
        try:
            if "memory" not in Path(control).read_text().split():
                write_file(control, b"+memory")
        except OSError as error:
            raise refusal(f"cannot enable the memory controller below {level} ({control})", error) from error

    def enter(self, path: str) -> None:
        """Moves the calling process, all its threads."""
        write_file(self.file(path, "cgroup.procs"), b"0")

    def remove(self, path: str, patience_seconds: float = BUSY_SECONDS) -> bool:
        """Removes one empty cgroup; false when there was none. A process that has just ended may keep it busy for a moment."""
        give_up = time.monotonic() + patience_seconds
        while True:
            try:
                os.rmdir(self.folder(path))
                return True
            except FileNotFoundError:
                return False
            except OSError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.005)

    def exists(self, path: str) -> bool:
        return os.path.isdir(self.folder(path))

    def children(self, path: str) -> list[str]:
        """Names of the live children; none when the cgroup is not there."""
        try:
            with os.scandir(self.folder(path)) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            return []

    def deepest_first(self, path: str) -> Iterator[str]:
        for name in self.children(path):
            yield from self.deepest_first(f"{path}/{name}")
        yield path

    def processes(self, path: str) -> list[int]:
        return [int(line) for line in text_of(self.file(path, "cgroup.procs")).split()]


def reclaim(folder: str) -> None:
    """v2 has memory.reclaim (5.19), v1 has memory.force_empty. Both report what they could not free as an error."""
    for name, request in (("memory.reclaim", b"1M"), ("memory.force_empty", b"0")):
        with suppress(OSError):
            write_file(f"{folder}/{name}", request)


def squeeze(folder: str) -> None:
    """Reclaims what is charged to a live cgroup; by its limit where there is no file to ask (v2 before 5.19)."""
    if os.path.exists(f"{folder}/memory.reclaim") or not os.path.exists(f"{folder}/memory.high"):
        reclaim(folder)
        return
    write_file(f"{folder}/memory.high", b"0")
    write_file(f"{folder}/memory.high", b"max")


def write_file(path: str, content: bytes) -> None:
    with descriptor_of(path, os.O_WRONLY) as descriptor:
        os.write(descriptor, content)


def _set_quietly(path: str, value: str) -> None:
    """For settings that some kernels lack or have fixed."""
    with suppress(OSError):
        if Path(path).read_text().strip() != value:
            write_file(path, value.encode())


def find_hierarchy(mountinfo: str | None = None) -> MemoryHierarchy:
    unified: str | None = None
    for line in (_mounts() if mountinfo is None else mountinfo).splitlines():
        left, _, right = line.partition(" - ")
        before, after = left.split(" "), right.split(" ")
        if len(before) < 6 or len(after) < 3:
            continue
        mount = re.sub(r"\\(040|011|012|134)", lambda code: chr(int(code[1], 8)), before[4])
        if after[0] == "cgroup" and "memory" in after[2].split(","):
            return MemoryHierarchy("v1", mount)
        if after[0] == "cgroup2" and unified is None:
            unified = mount
    if unified is not None and (mountinfo is not None or _lists_memory(f"{unified}/cgroup.controllers")):
        return MemoryHierarchy("v2", unified)
    raise ObservationError(
        "cannot make memory cgroups",
        "no mounted cgroup hierarchy has the memory controller",
        "grep memory /proc/cgroups; a kernel command line with cgroup_disable=memory turns it off",
    )


def _mounts() -> str:
    try:
        return Path(_MOUNTS).read_text(errors="surrogateescape")
    except OSError as error:
        raise ObservationError(
            "cannot make memory cgroups", f"{_MOUNTS}: {reason_of(error)}", "mount -t proc proc /proc"
        ) from None


def _lists_memory(path: str) -> bool:
    return "memory" in text_of(path).split()


NOTE = ".memory-handed-down"
_UNUSED = {"current": "0", "max": "max", "high": "max", "min": "0", "low": "0"}


def hand_down(hierarchy: MemoryHierarchy) -> None:
    """Turns memory on below the root if it is off, after the note is on disk."""
    if not hierarchy.is_unified or _is_handed_down(hierarchy, "/"):
        return
    _write_note()
    try:
        hierarchy.hand_down("/")
    except ZombiescopeError:
        _forget()
        raise


def take_back(hierarchy: MemoryHierarchy) -> str:
    """Turns off what `hand_down` turned on. Empty, or why it stays on; then the note stays as well, and the next
    cleaning tries again."""
    if not _is_noted():
        return ""
    if _is_handed_down(hierarchy, "/"):
        if reason := _used_by_others(hierarchy):
            return reason
        try:
            write_file(hierarchy.file("/", _CONTROL), b"-memory")
        except OSError as error:
            return f"the kernel keeps the memory controller on below /: {error.strerror}"
    _forget()
    return ""


def _used_by_others(hierarchy: MemoryHierarchy) -> str:
    """Why somebody else's cgroups need the controller by now; empty when they do not."""
    for name in hierarchy.children("/"):
        path = f"/{name}"
        if name != LAB and (_is_handed_down(hierarchy, path) or not _is_unused(hierarchy, path)):
            return f"the memory controller stays on below /: {path} has come to use it since the lab turned it on"
    return ""


def _is_unused(hierarchy: MemoryHierarchy, path: str) -> bool:
    """Nothing charged and nothing limited; what cannot be read counts as used, unless the whole cgroup is gone."""
    try:
        return all(
            Path(hierarchy.file(path, f"memory.{name}")).read_text().strip() == value for name, value in _UNUSED.items()
        )
    except OSError:
        return not hierarchy.exists(path)


def _is_handed_down(hierarchy: MemoryHierarchy, path: str) -> bool:
    return _lists_memory(hierarchy.file(path, _CONTROL))


def _write_note() -> None:
    """In the first place that can be written; of this boot alone, for no cgroup outlives its kernel."""
    reasons = []
    for root in STATE_ROOTS:
        try:
            make_private(root)
            descriptor = os.open(f"{root}/{NOTE}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        except (OSError, ActionFailedError) as error:
            reasons.append(f"{root}: {error}")
            continue
        with held_open(descriptor):
            os.write(descriptor, boot_id().encode())
            os.fsync(descriptor)
        return
    raise ActionFailedError(
        "cannot note that the lab turns the memory controller on",
        "; ".join(reasons),
        "make one of these folders writable",
    )


def _is_noted() -> bool:
    for root in STATE_ROOTS:
        with suppress(OSError):
            if not why_foreign(root) and Path(root, NOTE).read_text() == boot_id():
                return True
    return False


def _forget() -> None:
    for root in STATE_ROOTS:
        if os.path.lexists(root) and not why_foreign(root):
            Path(root, NOTE).unlink(missing_ok=True)
