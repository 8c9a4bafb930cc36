# SPDX-License-Identifier: Apache-2.0
"""One file of a folder, held so that nobody can open it meanwhile, set aside where nobody else can reach it, and only then deleted.

Names can be exchanged between any two calls, so no check of a name is worth anything when `unlink` follows it. A file is moved
into a folder of ours first; what lies there is looked at, and goes if it is the very one, or back if not (record 12).
"""

import base64
import ctypes
import errno
import fcntl
import os
import platform
import signal
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from zombiescope.host.own_folder import own_folder_in
from zombiescope.host.safe_open import last_error, open_regular
from zombiescope.host.safe_paths import BY_NUMBER, UnsafePathError, held_open, is_unsafe, parent_of, unsafe_words

_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2
_NO_LEASES = (errno.EINVAL, errno.EOPNOTSUPP, errno.EACCES, errno.EPERM, errno.ENOLCK)
_OTHER_NAMES = 100
_libc = ctypes.CDLL(None, use_errno=True)


class InUseError(OSError):
    """Somebody alive has it open, mapped or attached."""

    def __init__(self, path: bytes = b"") -> None:
        super().__init__(errno.EBUSY, "in use by a live program", path)


class Identity(NamedTuple):
    """A file as the plan saw it."""

    inode: int | None
    device: str | None = None
    """`major:minor`; None where the file system gives files other devices than its own."""

    def is_of(self, status: os.stat_result) -> bool:
        device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
        return status.st_ino == self.inode and self.device in (None, device)


class Held(NamedTuple):
    name: bytes
    descriptor: int
    status: os.stat_result
    is_leased: bool
    """The kernel has promised that nobody else has it open or mapped. Without it only /proc can tell."""

    def still_alone(self) -> bool:
        """False as soon as somebody waits to open it."""
        return not self.is_leased or fcntl.fcntl(self.descriptor, fcntl.F_GETLEASE) == fcntl.F_WRLCK


@contextmanager
def held(folder: int, name: bytes, wanted: Identity) -> Iterator[Held]:
    """Open the very file that was seen. Raises InUseError, UnsafePathError, or OSError when another has its name."""
    with held_open(_open_the(folder, name, wanted)) as descriptor:
        status = os.fstat(descriptor)
        above = os.fstat(folder).st_uid
        if is_unsafe(above, status.st_uid):
            raise UnsafePathError(unsafe_words(above, status.st_uid, name), name)
        yield Held(name, descriptor, status, _lease(descriptor, name))


def _open_the(folder: int, name: bytes, wanted: Identity) -> int:
    """Without marking it as read, where that is ours to ask: O_NOATIME is the owner's."""

    def check(status: os.stat_result) -> None:
        if wanted.inode is not None and not wanted.is_of(status):
            raise OSError(errno.ESTALE, "another file has its name by now", name)

    try:
        try:
            return open_regular(name, os.O_RDONLY | os.O_NOATIME, dir_fd=folder, check=check)[0]
        except PermissionError:
            return open_regular(name, dir_fd=folder, check=check)[0]
    except BlockingIOError as error:  # somebody else has a lease on it
        raise InUseError(name) from error


def _lease(descriptor: int, name: bytes) -> bool:
    """A write lease is given only where nobody else has the file open or mapped, whichever process and namespace it is; whoever
    opens it then waits until it is closed here. The signal that tells so is one that nobody minds."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EBUSY):
            raise InUseError(name) from error
        if error.errno not in _NO_LEASES:
            raise
        return False
    return True


@contextmanager
def the_file(path: bytes, wanted: Identity, root: bytes = b"") -> Iterator[int]:
    """Open the very file that was seen: never through a link, never waiting, and without marking it as read. Raises OSError when
    another has its name by now."""
    with parent_of(root, path, BY_NUMBER) as (folder, name):
        descriptor = _open_the(folder, name, wanted)
    with held_open(descriptor):
        yield descriptor


def let_cache_go(descriptor: int) -> None:
    """Clean pages that nobody maps; the file stays."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def content_of(file: Held, limit: int) -> bytes:
    """From the very descriptor, whole; raises OSError where it is larger."""
    content = bytearray()
    while part := os.pread(file.descriptor, 1 << 16, len(content)):
        content += part
        if len(content) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), file.name)
    return bytes(content)


# A folder of ours beside the files: the same file system and mount, or nothing could be moved into it.


def names_aside(folder: int, name: bytes) -> list[int]:
    """What was set aside and neither deleted nor put back; nothing where there is no such folder."""
    try:
        with own_folder_in(folder, name) as place:
            return sorted(int(each) for each in os.listdir(place) if each.isdecimal())
    except FileNotFoundError:
        return []


def set_aside(folder: int, name: bytes, place: int, number: int, wanted: Identity) -> None:
    """Moved into the folder of ours. If it is another than wanted it is put back and ESTALE raised."""
    rename(folder, name, place, b"%d" % number)
    status = os.stat(b"%d" % number, dir_fd=place, follow_symlinks=False)
    if not (stat.S_ISREG(status.st_mode) and wanted.is_of(status)):
        put_back(folder, name, place, number)
        raise OSError(errno.ESTALE, "another file has its name by now", name)


def put_back(folder: int, name: bytes, place: int, number: int) -> None:
    """Under its name; under a name beside it where that was taken meanwhile. Nothing is ever replaced."""
    for attempt in range(_OTHER_NAMES):
        beside = name if attempt == 0 else name[:200] + b".zombiescope-%d" % attempt
        with suppress(FileExistsError):
            rename(place, b"%d" % number, folder, beside)
            return
    raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), name)


def remove_aside(folder: int, name: bytes) -> None:
    """Only an empty folder goes, and only ours: whoever owns the folder above may have moved it."""
    with own_folder_in(folder, name):
        os.rmdir(name, dir_fd=folder)


def rename(folder: int, name: bytes, to_folder: int, to_name: bytes) -> None:
    """Never over something else, and the thing itself where it is a link."""
    _renameat2((folder, name, to_folder, to_name), _RENAME_NOREPLACE, "rename without replacing")


def exchange(folder: int, name: bytes, to_folder: int, to_name: bytes) -> None:
    """Both names are there at every moment."""
    _renameat2((folder, name, to_folder, to_name), _RENAME_EXCHANGE, "exchange two names")


def _renameat2(names: tuple[int, bytes, int, bytes], flag: int, what: str) -> None:
    if not hasattr(_libc, "renameat2"):  # glibc before 2.28
        raise OSError(errno.ENOSYS, f"this C library cannot {what}", names[1])
    if _libc.renameat2(*names, flag) != 0:
        raise last_error(names[1])


_IPC_RMID, _IPC_STAT = 0, 2
_NAMES_OF_GENERIC = ("x86_64", "aarch64", "riscv64", "loongarch64")
"""Machines of 64 bits on which the kernel's `shmid_ds` is that of asm-generic."""
_ATTACHED_AT = 88


def attached(number: int) -> int:
    """Processes that have it attached; raises OSError where it is gone or cannot be looked at."""
    if platform.machine() not in _NAMES_OF_GENERIC:
        return _listed(number)
    buffer = ctypes.create_string_buffer(256)
    if _libc.shmctl(number, _IPC_STAT, buffer) != 0:
        raise last_error()
    return int(struct.unpack_from("=Q", buffer, _ATTACHED_AT)[0])


def _listed(number: int) -> int:
    with open("/proc/sysvipc/shm", "rb") as table:
        for words in map(bytes.split, table.read().split(b"\n")[1:]):
            if len(words) > 6 and int(words[1]) == number:
                return int(words[6])
    raise FileNotFoundError(2, "the segment is gone")


def remove(number: int) -> None:
    if _libc.shmctl(number, _IPC_RMID, None) != 0:
        raise last_error()


Attribute = tuple[str, bytes]
_THE_KERNELS = {"security.ima", "security.evm"}
"""Sums of a file's content that the kernel keeps itself."""
_INHERITED = "system.posix_acl_access"
"""A new file may have got one from its folder."""
_NONE = (errno.ENOTSUP, errno.ENODATA, errno.ENOSYS)


def read_attributes(place: bytes | int) -> tuple[Attribute, ...]:
    """By name. A link is not followed; `place` may be a descriptor."""
    follow = isinstance(place, int)
    try:
        names = set(os.listxattr(place, follow_symlinks=follow)) - _THE_KERNELS
        return tuple((name, os.getxattr(place, name, follow_symlinks=follow)) for name in sorted(names))
    except OSError as error:
        if error.errno not in _NONE:
            raise
        return ()


def write_attributes(place: bytes | int, wanted: tuple[Attribute, ...]) -> None:
    """Raises OSError where one cannot be set: what would lose an access list or a label is not placed."""
    follow = isinstance(place, int)
    has = dict(read_attributes(place))
    for name, value in wanted:
        if has.get(name) != value:
            os.setxattr(place, name, value, follow_symlinks=follow)
    if _INHERITED in has and _INHERITED not in dict(wanted):
        os.removexattr(place, _INHERITED, follow_symlinks=follow)


READ_LIMIT_BYTES = 1 << 20


class Found(NamedTuple):
    """What is at a place, without following a link. `kind`: absent, link, file, folder, other."""

    kind: str
    content: bytes = b""
    """Of a file; the target of a link."""
    mode: int = 0
    uid: int = 0
    gid: int = 0
    mtime_ns: int = 0
    xattrs: tuple[Attribute, ...] = ()
    """Access lists and labels among them."""

    def as_plain(self, *, with_content: bool = True) -> dict[str, Any]:
        plain: dict[str, Any] = {"kind": self.kind}
        if self.kind not in ("file", "link"):
            return plain
        plain |= {"content": base64.b64encode(self.content).decode()} if with_content else {}
        plain |= {"mode": self.mode} if self.kind == "file" else {}
        plain |= {"uid": self.uid, "gid": self.gid, "mtime_ns": self.mtime_ns}
        return plain | {"xattrs": {name: base64.b64encode(value).decode() for name, value in self.xattrs}}


def found_of(plain: dict[str, Any]) -> Found:
    mode, uid, gid, mtime_ns = (int(plain.get(name, 0)) for name in ("mode", "uid", "gid", "mtime_ns"))
    xattrs = tuple(sorted((str(name), base64.b64decode(value)) for name, value in plain.get("xattrs", {}).items()))
    return Found(str(plain["kind"]), base64.b64decode(plain.get("content", "")), mode, uid, gid, mtime_ns, xattrs)


def found_at(place: bytes, path: bytes) -> Found:
    """`place`: how it is reached; `path`: what it is called in an error."""
    status = os.lstat(place)
    if stat.S_ISLNK(status.st_mode):
        owner, at = (status.st_uid, status.st_gid), status.st_mtime_ns
        return Found("link", os.readlink(place), 0, *owner, at, read_attributes(place))
    if not stat.S_ISREG(status.st_mode):
        return Found("folder" if stat.S_ISDIR(status.st_mode) else "other")
    descriptor, status = open_regular(place)
    with open(descriptor, "rb") as file:
        content = file.read(READ_LIMIT_BYTES + 1)
        xattrs = read_attributes(file.fileno())
    if len(content) > READ_LIMIT_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    mode = stat.S_IMODE(status.st_mode)
    return Found("file", content, mode, status.st_uid, status.st_gid, status.st_mtime_ns, xattrs)
