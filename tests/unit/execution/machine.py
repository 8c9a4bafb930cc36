# SPDX-License-Identifier: Apache-2.0
"""A machine made of files, so that what a kill leaves behind is all there is: units, swap and segments are files too."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from zombiescope.execution.executor import Executor, Surroundings
from zombiescope.execution.journal import Journal
from zombiescope.execution.moves import Hands
from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.host.children import Ran
from zombiescope.host.removal import read_attributes
from zombiescope.host.writes import Fault, Writer
from zombiescope.remedies.plan import Change, DeleteFiles, NamedFile, RewriteFiles, Risk, Step, Undo

ETC = b"/etc/systemd/system"
SWAP_HEAD = b"Filename Type Size Used Priority\n"
HIERARCHY = Hierarchy(HierarchyVersion.V2, b"/sys/fs/cgroup", False, "")


class FileMachine(Writer):
    """Only what no folder can do is stood in for."""

    def _path(self, name: str) -> Path:
        return Path(os.fsdecode(self.root)) / name

    def set_file(self, path: bytes, value: bytes) -> None:
        with self._step("set_file"):
            self._path(os.fsdecode(path).lstrip("/")).write_bytes(value)

    def remove_segment(self, number: int) -> None:
        with self._step("remove_segment"):
            (self._path("segments") / str(number)).unlink()

    def sync(self) -> None:
        with self._step("sync"):
            pass

    def settle(self) -> None:
        return

    def swap(self, device: bytes, *, on: bool, priority: int = -1) -> None:
        line = b"%s partition 1024 0 %d\n" % (device, priority)
        with self._step("swapon" if on else "swapoff"):
            self._path("proc/swaps").write_bytes(SWAP_HEAD + line * on)

    def systemctl(self, *words: str, seconds: float = 150.0) -> Ran:
        unit = self._path("units") / words[-1]
        if words[0] == "show":
            state = unit.read_text() if unit.exists() else "inactive"
            load = "loaded" if unit.exists() else "not-found"
            return Ran(0, f"LoadState={load}\nActiveState={state}\nSubState=x\n".encode(), "")
        state_after = {"stop": "inactive", "start": "active"}.get(words[0])
        with self._step(f"systemctl {words[0]}"):
            if state_after:
                unit.write_text(state_after)
        return Ran(0, b"", "")


def build(root: Path) -> Path:
    """What a plan of all primitives wants to find."""
    for folder in ("etc/systemd/system/multi-user.target.wants", "units", "segments", "dev/shm", "var/log", "proc",
                   "sys/fs/cgroup/a", "sys/node"):  # fmt: skip
        (root / folder).mkdir(parents=True)
    wants = root / "etc/systemd/system/multi-user.target.wants"
    for name in ("b.service", "c\udcff.service"):
        os.symlink(f"/lib/systemd/system/{name}", wants / name)
    (root / "etc/existing.conf").write_bytes(b"as it was\xff\n")
    os.chmod(root / "etc/existing.conf", 0o640)
    with suppress(OSError):  # tmpfs knows them since 6.6
        os.setxattr(root / "etc/existing.conf", "user.note", b"somebody's\0")
    os.utime(root / "etc/existing.conf", ns=(10**18, 10**18))
    (root / "units/a.service").write_text("active")
    (root / "proc/swaps").write_bytes(SWAP_HEAD + b"/swap partition 1024 0 7\n")
    for number in (5, 6):
        (root / f"segments/{number}").touch()
        (root / f"dev/shm/{number}").write_text(f"in memory {number}")
        (root / f"var/log/{number}").write_text("on disk")
    for name in ("memory.reclaim", "memory.force_empty", "trigger"):
        (root / f"sys/fs/cgroup/a/{name}").write_text("")
    (root / "sys/fs/cgroup/a/memory.high").write_text("max")
    (root / "sys/fs/cgroup/cgroup.procs").write_text("")
    (root / "sys/knob").write_text("before")
    return root


def step(n: int, change: Change, undo: Undo) -> Step:
    return Step(n, f"step{n}", "recipe", f"step {n}", change, "", "zombie-population", Risk.LOW, undo, "", None, False)


def seen(root: Path, each: Step) -> Step:
    """With the files that it deletes or rewrites as a plan sees them: by number."""
    change = each.change
    if not isinstance(change, DeleteFiles | RewriteFiles):
        return each
    files = [NamedFile(path, (root / os.fsdecode(path).lstrip("/")).stat().st_ino) for path, *_ in change.files]
    return each._replace(change=type(change)(tuple(files)))


def workshop(root: Path, state: Path, fault: Fault = lambda _: None) -> tuple[Hands, Executor]:
    hands = Hands(FileMachine(os.fsencode(root), fault), Journal(str(state / "actions" / "one"), lambda: 1e9, fault))
    around = Surroundings(lambda: None, lambda: None, lambda _: None, HIERARCHY)
    return hands, Executor(hands, around, has_systemd=True)


def picture(root: Path) -> dict[str, tuple[object, ...]]:
    """Every file, link and folder, with content, mode, owner, attributes and, of files in /etc, time."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        name, status = str(path.relative_to(root)), path.lstat()
        when = status.st_mtime_ns if name.startswith("etc/") else 0
        if path.is_symlink():
            found[name] = ("link", os.readlink(path), status.st_uid, status.st_gid, when)
        elif path.is_dir():
            found[name] = ("folder", status.st_mode)
        else:
            extra = read_attributes(os.fsencode(path))
            found[name] = ("file", path.read_bytes(), status.st_mode, status.st_uid, status.st_gid, when, extra)
    return found
