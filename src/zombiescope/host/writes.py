# SPDX-License-Identifier: Apache-2.0
"""The only way to change a machine, or the root folder of one: files, links, kernel files, units, memory.

Nothing is decided here and nothing is remembered: `execution` writes its journal first. `fault` is told before and after each
change, so that a test can end the process between any two. Every path is walked by descriptors (`safe_paths.py`).
"""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress

from zombiescope.host import removal, rewriting
from zombiescope.host.children import Ran, ask_program, run_in_child
from zombiescope.host.own_folder import own_folder_in
from zombiescope.host.page_size import PAGE_BYTES, every_cpu
from zombiescope.host.removal import (
    READ_LIMIT_BYTES,
    Found,
    Held,
    Identity,
    InUseError,
    found_at,
    let_cache_go,
    the_file,
    write_attributes,
)
from zombiescope.host.safe_open import last_error
from zombiescope.host.safe_paths import (
    CAREFUL,
    OF_KERNEL,
    STRICT,
    Rules,
    UnsafePathError,
    descriptor_of,
    folder_at,
    held_open,
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

    def folder(self, path: bytes) -> AbstractContextManager[int]:
        """Of files that are to be deleted: no link on the way, and no stranger's folder that leads to another's."""
        return folder_at(self.root, path, STRICT)

    # Files, links and folders of the machine.

    def make_folder(self, path: bytes) -> None:
        with self._step("make_folder"), self._place(path) as place:
            os.mkdir(place, 0o755)

    def remove_folder(self, path: bytes) -> None:
        with self._step("remove_folder"), self._place(path) as place:
            os.rmdir(place)

    def place_link(self, path: bytes, target: bytes, like: Found | None = None) -> None:
        """`like`: whose owner, time and label it gets."""
        with self._step("place_link"), self._place(path) as place:
            os.symlink(target, place)
            if like is not None and like.mtime_ns:
                os.chown(place, like.uid, like.gid, follow_symlinks=False)
                write_attributes(place, like.xattrs)
                os.utime(place, ns=(like.mtime_ns, like.mtime_ns), follow_symlinks=False)
            sync_folder(os.path.dirname(place))

    def remove(self, path: bytes) -> None:
        with self._step("remove"), self._place(path) as place:
            os.unlink(place)
            sync_folder(os.path.dirname(place))

    def place_file(self, path: bytes, what: Found) -> None:
        """Whole or not at all: beside it, synced, then renamed."""
        with self._step("place_file"), self._place(path) as place:
            self._replace(place, what)

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
        with self._step("make_aside"):
            os.mkdir(aside, 0o700, dir_fd=folder)

    def set_aside(self, folder: int, aside: bytes, number: int, file: Held) -> None:
        """Raises InUseError when somebody has come for it, and ESTALE when another has its name."""
        with self._step("set_aside"):
            if not file.still_alone():
                raise InUseError(file.name)
            status = file.status
            wanted = Identity(status.st_ino, f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}")
            with own_folder_in(folder, aside) as place:
                removal.set_aside(folder, file.name, place, number, wanted)

    def delete(self, folder: int, aside: bytes, number: int, file: Held) -> None:
        """Without a sync: files in memory have no disk to sync to. Who found its name before it was set aside may wait to open
        it: then it is put back, and InUseError raised."""
        with self._step("delete"), own_folder_in(folder, aside) as place:
            if not file.still_alone():
                removal.put_back(folder, file.name, place, number)
                raise InUseError(file.name)
            os.unlink(b"%d" % number, dir_fd=place)

    def put_back(self, folder: int, aside: bytes, number: int, name: bytes) -> None:
        with self._step("put_back"), own_folder_in(folder, aside) as place:
            removal.put_back(folder, name, place, number)

    def remove_aside(self, folder: int, aside: bytes) -> None:
        with self._step("remove_aside"):
            removal.remove_aside(folder, aside)

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

        with self._step("copy_in_child"):
            code = run_in_child(work, seconds)
        if code != 0:
            code = errno.ETIMEDOUT if code is None else code if code > 0 else errno.EINTR
            raise OSError(code, os.strerror(code), home)
        for file, copy in pairs:
            rewriting.take_after(file, copy)

    def name_copy(self, folder: int, aside: bytes, number: int, copy: int) -> None:
        with self._step("name_copy"), own_folder_in(folder, aside) as place:
            rewriting.name_copy(copy, place, number)

    def trade_places(self, folder: int, aside: bytes, number: int, file: Held) -> None:
        """Raises InUseError when somebody has come for it, and ESTALE when another has its name."""
        with self._step("trade_places"), own_folder_in(folder, aside) as place:
            rewriting.trade_places(folder, file, place, number)

    def clear_copy(self, folder: int, aside: bytes, number: int, name: bytes, pair: tuple[int, int]) -> None:
        """Whatever is left there after two traded places, or did not; `pair`: the inodes of the file and of its copy."""
        with self._step("clear_copy"), own_folder_in(folder, aside) as place:
            rewriting.clear(folder, name, place, number, pair)

    def restore_file(self, path: bytes, copy: int, like: Found, home: bytes | None) -> None:
        """From a descriptor, under a name that must be free (FileExistsError). `home`: of the cgroup that it is charged to."""

        def enter_and_fill(new: int) -> None:
            self._write_once(home or b"", b"0")
            rewriting.copy_whole(copy, new)

        def fill(new: int) -> None:
            if home is None or run_in_child(lambda: enter_and_fill(new), 60.0) != 0:
                rewriting.copy_whole(copy, new)

        with self._step("restore_file"), folder_at(self.root, os.path.dirname(path), STRICT) as folder:
            rewriting.restore(folder, os.path.basename(path), like, fill)

    # The kernel.

    def set_file(self, path: bytes, value: bytes) -> None:
        with self._step("set_file"):
            self._write_once(path, value)

    def set_file_in_child(self, path: bytes, value: bytes, seconds: float) -> bool:
        """For a write that may take very long: False when it was interrupted after so many seconds."""
        with self._step("set_file_in_child"):
            code = run_in_child(lambda: self._write_once(path, value), seconds)
        if code is None:
            return False
        if code > 0 and code not in (errno.EAGAIN, errno.EBUSY, errno.EINTR):
            raise OSError(code, os.strerror(code), path)
        return True

    def drop_cache(self, path: bytes, wanted: Identity) -> None:
        with self._step("drop_cache"), the_file(path, wanted, self.root) as descriptor:
            let_cache_go(descriptor)

    def remove_segment(self, number: int) -> None:
        """Raises InUseError where a process has it attached."""
        with self._step("remove_segment"):
            if removal.attached(number):
                raise InUseError
            removal.remove(number)

    def sync(self) -> None:
        with self._step("sync"):
            os.sync()

    def let_one_die(self, folder: bytes) -> None:
        """A cgroup is made and removed at once."""
        with self._step("let_one_die"), self._place(folder + b"/" + NUDGE, OF_KERNEL) as name:
            with suppress(FileExistsError):
                os.mkdir(name)
            os.rmdir(name)

    def swap(self, device: bytes, *, on: bool, priority: int = -1) -> None:
        """A priority below 0 is the kernel's own choice."""
        with self._step("swapon" if on else "swapoff"):
            libc = ctypes.CDLL(None, use_errno=True)
            flags = _SWAP_FLAG_PREFER | priority if priority >= 0 else 0
            if (libc.swapon(device, flags) if on else libc.swapoff(device)) != 0:
                raise last_error(device)

    def settle(self) -> None:
        """Fresh pages of our own through every CPU's batch: what was just freed waits there."""
        with held_open(os.memfd_create("zombiescope")) as handle, closing(every_cpu()) as cpus:
            for _ in cpus:
                os.pwrite(handle, bytes(PAGE_BYTES * _BATCH_PAGES), 0)
                os.ftruncate(handle, 0)

    # Units.

    def systemctl(self, *words: str, seconds: float = 150.0) -> Ran:
        """Raises OSError where it is not installed or does not end in time."""
        is_question = words[0] in ("show", "is-active", "is-enabled")
        with nullcontext() if is_question else self._step(f"systemctl {words[0]}"):
            if (ran := ask_program("systemctl", *words, seconds=seconds)) is None:
                raise OSError(errno.ENOENT, "systemctl is not installed")
        return ran

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """A change; `fault` hears of its end only where it was done."""
        self._fault(f"before:{name}")
        yield
        self._fault(f"after:{name}")

    def _write_once(self, path: bytes, value: bytes) -> None:
        with (
            self._place(path, OF_KERNEL) as place,
            descriptor_of(place, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC) as handle,
        ):
            os.write(handle, value)

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
        if (owner := os.fstat(folder).st_uid) in (0, os.geteuid()):
            return
        with folder_at(self.root, b"") as top:
            if os.fstat(top).st_uid != owner:
                raise UnsafePathError(
                    f"its folder belongs to uid {owner}, who could exchange what is placed there", path
                )
