# SPDX-License-Identifier: Apache-2.0
"""The only way to change a machine, or the root folder of one: files, links, kernel files, units, memory.

Nothing is decided here and nothing is remembered: `execution` writes its journal first. `fault` is told before and after each
change, so that a test can end the process between any two. Every path is walked by descriptors (`safe_paths.py`).
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress

from zombiescope.host import removal, rewriting
from zombiescope.host.children import Ran, ask_program, run_in_child
from zombiescope.host.every_cpu import every_cpu
from zombiescope.host.own_folder import own_folder_in
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.removal import (
    READ_LIMIT_BYTES,
    Found,
    Held,
    Identity,
    InUseError,
    found_at,
    held,
    let_cache_go,
    the_file,
    write_attributes,
)
from zombiescope.host.safe_paths import (
    CAREFUL,
    OF_KERNEL,
    STRICT,
    Rules,
    UnsafePathError,
    folder_at,
    parent_of,
)
from zombiescope.host.whole_file import sync_folder

_BATCH_PAGES = 64
_SWAP_FLAG_PREFER = 0x8000
_BESIDE = b".zombiescope-new"
NUDGE = b"zombiescope-nudge"
"""The cgroup that is made to be removed at once."""
Fault = Callable[[str], None]


class Writer:
    """`root`: a folder that stands for the machine; empty for this one."""

    def __init__(self, root: bytes = b"", fault: Fault = lambda _: None) -> None:
        self.root = root.rstrip(b"/")
        self._fault = fault

    # Looking.

    def look(self, path: bytes) -> Found:
        try:
            with self._place(path) as place:
                return found_at(place, path)
        except (FileNotFoundError, NotADirectoryError):
            return Found("absent")

    def read_value(self, path: bytes) -> bytes:
        """A kernel file's value."""
        with self._place(path, OF_KERNEL) as place:
            handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            return file.read(READ_LIMIT_BYTES).strip()

    @contextmanager
    def folder(self, path: bytes) -> Iterator[int]:
        """Of files that are to be deleted: no link on the way, and no stranger's folder that leads to another's."""
        with folder_at(self.root, path, STRICT) as found:
            yield found

    @contextmanager
    def hold(self, folder: int, name: bytes, wanted: Identity) -> Iterator[Held]:
        """One file of such a folder, for as long as it takes; raises OSError, InUseError among them."""
        with held(folder, name, wanted) as found:
            yield found

    def names_aside(self, folder: int, aside: bytes) -> list[int]:
        """What was set aside and neither deleted nor put back; nothing where there is no such folder."""
        return removal.names_aside(folder, aside)

    # Files, links and folders of the machine.

    def make_folder(self, path: bytes) -> None:
        def work() -> None:
            with self._place(path) as place:
                os.mkdir(place, 0o755)

        self._do("make_folder", work)

    def remove_folder(self, path: bytes) -> None:
        def work() -> None:
            with self._place(path) as place:
                os.rmdir(place)

        self._do("remove_folder", work)

    def place_link(self, path: bytes, target: bytes, like: Found | None = None) -> None:
        """`like`: whose owner, time and label it gets."""

        def work() -> None:
            with self._place(path) as place:
                os.symlink(target, place)
                if like is not None and like.mtime_ns:
                    os.chown(place, like.uid, like.gid, follow_symlinks=False)
                    write_attributes(place, like.xattrs)
                    os.utime(place, ns=(like.mtime_ns, like.mtime_ns), follow_symlinks=False)
                sync_folder(os.path.dirname(place))

        self._do("place_link", work)

    def remove(self, path: bytes) -> None:
        def work() -> None:
            with self._place(path) as place:
                os.unlink(place)
                sync_folder(os.path.dirname(place))

        self._do("remove", work)

    def place_file(self, path: bytes, what: Found) -> None:
        """Whole or not at all: beside it, synced, then renamed."""

        def work() -> None:
            with self._place(path) as place:
                self._replace(place, what)

        self._do("place_file", work)

    def clear_beside(self, path: bytes) -> None:
        """What a kill left of a file that never got its name."""
        with suppress(FileNotFoundError, NotADirectoryError), self._place(path) as place:
            os.unlink(place + _BESIDE)

    @staticmethod
    def _replace(place: bytes, what: Found) -> None:
        beside = place + _BESIDE
        with suppress(FileNotFoundError):
            os.unlink(beside)
        try:
            handle = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(handle, "wb") as file:
                file.write(what.content)
                file.flush()
                if (what.uid, what.gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), what.uid, what.gid)
                os.fchmod(file.fileno(), what.mode)
                write_attributes(file.fileno(), what.xattrs)
                os.fsync(file.fileno())
            if what.mtime_ns:
                os.utime(beside, ns=(what.mtime_ns, what.mtime_ns))
            os.rename(beside, place)
        except OSError:
            with suppress(OSError):
                os.unlink(beside)
            raise
        sync_folder(os.path.dirname(place))

    # Deleting files: into a folder of ours, where nobody can exchange them, and from there (`removal.py`).

    def make_aside(self, folder: int, aside: bytes) -> None:
        self._do("make_aside", lambda: removal.make_aside(folder, aside))

    def set_aside(self, folder: int, aside: bytes, number: int, file: Held) -> None:
        """Raises InUseError when somebody has come for it, and ESTALE when another has its name."""

        def work() -> None:
            if not file.still_alone():
                raise InUseError(file.name)
            status = file.status
            wanted = Identity(status.st_ino, f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}")
            with own_folder_in(folder, aside) as place:
                removal.set_aside(folder, file.name, place, number, wanted)

        self._do("set_aside", work)

    def delete(self, folder: int, aside: bytes, number: int, file: Held) -> None:
        """Without a sync: files in memory have no disk to sync to. Who found its name before it was set aside may wait to open
        it: then it is put back, and InUseError raised."""

        def work() -> None:
            with own_folder_in(folder, aside) as place:
                if not file.still_alone():
                    removal.put_back(folder, file.name, place, number)
                    raise InUseError(file.name)
                os.unlink(b"%d" % number, dir_fd=place)

        self._do("delete", work)

    def put_back(self, folder: int, aside: bytes, number: int, name: bytes) -> None:
        def work() -> None:
            with own_folder_in(folder, aside) as place:
                removal.put_back(folder, name, place, number)

        self._do("put_back", work)

    def remove_aside(self, folder: int, aside: bytes) -> None:
        self._do("remove_aside", lambda: removal.remove_aside(folder, aside))

    # Rewriting files: a copy without a name, which then trades places with its file (`rewriting.py`).

    def nameless(self, folder: int) -> int:
        """A descriptor; nobody else sees what it stands for."""
        return rewriting.nameless(folder)

    def copy_in_child(self, home: bytes, pairs: Sequence[tuple[Held, int]], seconds: float) -> None:
        """In a child that enters another cgroup first: the memory of a copy is charged to whoever writes it."""

        def work() -> None:
            self._write_once(home, b"0")
            for file, copy in pairs:
                rewriting.copy_whole(file.descriptor, copy)

        self._fault("before:copy_in_child")
        code = run_in_child(work, seconds)
        self._fault("after:copy_in_child")
        if code != 0:
            code = errno.ETIMEDOUT if code is None else code if code > 0 else errno.EINTR
            raise OSError(code, os.strerror(code), home)
        for file, copy in pairs:
            rewriting.take_after(file, copy)

    def name_copy(self, folder: int, aside: bytes, number: int, copy: int) -> None:
        def work() -> None:
            with own_folder_in(folder, aside) as place:
                rewriting.name_copy(copy, place, number)

        self._do("name_copy", work)

    def trade_places(self, folder: int, aside: bytes, number: int, file: Held) -> None:
        """Raises InUseError when somebody has come for it, and ESTALE when another has its name."""

        def work() -> None:
            with own_folder_in(folder, aside) as place:
                rewriting.trade_places(folder, file, place, number)

        self._do("trade_places", work)

    def clear_copy(self, folder: int, aside: bytes, number: int, name: bytes, pair: tuple[int, int]) -> None:
        """Whatever is left there after two traded places, or did not; `pair`: the inodes of the file and of its copy."""

        def work() -> None:
            with own_folder_in(folder, aside) as place:
                rewriting.clear(folder, name, place, number, pair)

        self._do("clear_copy", work)

    def restore_file(self, path: bytes, copy: int, like: Found, home: bytes | None) -> None:
        """From a descriptor, under a name that must be free (FileExistsError). `home`: of the cgroup that it is charged to."""

        def enter_and_fill(new: int) -> None:
            self._write_once(home or b"", b"0")
            rewriting.copy_whole(copy, new)

        def fill(new: int) -> None:
            if home is None or run_in_child(lambda: enter_and_fill(new), 60.0) != 0:
                rewriting.copy_whole(copy, new)

        def work() -> None:
            with folder_at(self.root, os.path.dirname(path), STRICT) as folder:
                rewriting.restore(folder, os.path.basename(path), like, fill)

        self._do("restore_file", work)

    # The kernel.

    def set_file(self, path: bytes, value: bytes) -> None:
        self._do("set_file", lambda: self._write_once(path, value))

    def set_file_in_child(self, path: bytes, value: bytes, seconds: float) -> bool:
        """For a write that may take very long: False when it was interrupted after so many seconds."""
        self._fault("before:set_file_in_child")
        code = run_in_child(lambda: self._write_once(path, value), seconds)
        self._fault("after:set_file_in_child")
        if code is None:
            return False
        if code > 0 and code not in (errno.EAGAIN, errno.EBUSY, errno.EINTR):
            raise OSError(code, os.strerror(code), path)
        return True

    def drop_cache(self, path: bytes, wanted: Identity) -> None:
        def work() -> None:
            with the_file(path, wanted, self.root) as descriptor:
                let_cache_go(descriptor)

        self._do("drop_cache", work)

    def remove_segment(self, number: int) -> None:
        """Raises InUseError where a process has it attached."""

        def work() -> None:
            if removal.attached(number):
                raise InUseError
            removal.remove(number)

        self._do("remove_segment", work)

    def sync(self) -> None:
        self._do("sync", os.sync)

    def let_one_die(self, folder: bytes) -> None:
        """A cgroup is made and removed at once."""

        def work() -> None:
            with self._place(folder + b"/" + NUDGE, OF_KERNEL) as name:
                with suppress(FileExistsError):
                    os.mkdir(name)
                os.rmdir(name)

        self._do("let_one_die", work)

    def swap(self, device: bytes, *, on: bool, priority: int = -1) -> None:
        """A priority below 0 is the kernel's own choice."""

        def work() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            flags = _SWAP_FLAG_PREFER | priority if priority >= 0 else 0
            done = libc.swapon(device, flags) if on else libc.swapoff(device)
            if done != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), device)

        self._do("swapon" if on else "swapoff", work)

    def settle(self) -> None:
        """Fresh pages of our own through every CPU's batch: what was just freed waits there."""
        handle = os.memfd_create("zombiescope")
        try:
            with closing(every_cpu()) as cpus:
                for _ in cpus:
                    os.pwrite(handle, bytes(PAGE_BYTES * _BATCH_PAGES), 0)
                    os.ftruncate(handle, 0)
        finally:
            os.close(handle)

    # Units.

    def systemctl(self, *words: str, seconds: float = 150.0) -> Ran:
        """Raises OSError where it is not installed or does not end in time."""
        changes = words[0] not in ("show", "is-active", "is-enabled")
        if changes:
            self._fault(f"before:systemctl {words[0]}")
        ran = ask_program("systemctl", *words, seconds=seconds)
        if ran is None:
            raise OSError(errno.ENOENT, "systemctl is not installed")
        if changes:
            self._fault(f"after:systemctl {words[0]}")
        return ran

    def _do(self, name: str, work: Callable[[], object]) -> None:
        self._fault(f"before:{name}")
        work()
        self._fault(f"after:{name}")

    def _write_once(self, path: bytes, value: bytes) -> None:
        with self._place(path, OF_KERNEL) as place:
            handle = os.open(place, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.write(handle, value)
            finally:
                os.close(handle)

    @contextmanager
    def _place(self, path: bytes, rules: Rules = CAREFUL) -> Iterator[bytes]:
        """Where a path lies, through the descriptor of the folder that holds it: whatever is renamed meanwhile, it stays that
        folder. In a root folder links are followed as that machine would: none leads out of it."""
        with parent_of(self.root, path, rules) as (folder, name):
            if rules.owners:
                self._require_no_stranger(folder, path)
            yield b"/proc/self/fd/%d/%s" % (folder, name)

    def _require_no_stranger(self, folder: int, path: bytes) -> None:
        """What we place would be in their hands. An unpacked image may belong to one user as a whole."""
        owner = os.fstat(folder).st_uid
        if owner in (0, os.geteuid()):
            return
        with folder_at(self.root, b"") as top:
            if os.fstat(top).st_uid != owner:
                raise UnsafePathError(
                    f"its folder belongs to uid {owner}, who could exchange what is placed there", path
                )
