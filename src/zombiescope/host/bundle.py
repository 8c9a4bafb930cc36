# SPDX-License-Identifier: Apache-2.0
"""The file a recording travels in: a tar archive with one member, read without unpacking anything.

An archive comes from a stranger: whatever in it is not a plain file with a plain name refuses the whole, and so does one that
would not fit in memory once unpacked.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import secrets
import tarfile
import zlib
from collections.abc import Iterable

from zombiescope.errors import ActionUndoneError, UsageError
from zombiescope.facts.names import shown
from zombiescope.host.recording import MEMBER, Answer, Header, decode, encode
from zombiescope.host.replay import ReplayHost

MOST_BYTES = 512 << 20
MOST_MEMBERS = 100
_BROKEN = (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, UnicodeError)


def write_bundle(path: str, header: Header, answers: Iterable[Answer]) -> int:
    """Writes all or nothing, and returns the size."""
    return publish(path, pack(header, answers), replace=True)


def pack(header: Header, answers: Iterable[Answer]) -> bytes:
    """The archive, with nothing in it that tells when, where or by whom it was packed."""
    content = "\n".join(encode(header, answers)).encode() + b"\n"
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        member = tarfile.TarInfo(MEMBER)
        member.size, member.mode = len(content), 0o644
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def publish(path: str, content: bytes, *, replace: bool) -> int:
    """Its owner's alone (0600), whole or not at all, and never through a link: what stands there under its name is replaced as
    a name, or stays where that was not asked for."""
    folder, name = os.path.split(path)
    temporary = f".zombiescope-record-{secrets.token_hex(8)}"
    try:
        place = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _unwritten(path, error) from error
    try:
        _write_beside(place, temporary, content)
        _give_name(place, temporary, name, replace=replace)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=place)
        raise _unwritten(path, error) from error
    finally:
        os.close(place)
    return len(content)


def _write_beside(place: int, temporary: str, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=place), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _give_name(place: int, temporary: str, name: str, *, replace: bool) -> None:
    if replace:
        os.rename(temporary, name, src_dir_fd=place, dst_dir_fd=place)
        return
    # A link fails where the name is taken, also by one who took it a moment ago; a rename would not.
    os.link(temporary, name, src_dir_fd=place, dst_dir_fd=place, follow_symlinks=False)
    os.unlink(temporary, dir_fd=place)


def _unwritten(path: str, error: OSError) -> ActionUndoneError:
    hint = {
        errno.EEXIST: "another name, or --force",
        errno.EPERM: "this file system has no links: give --force, or a file elsewhere",
    }.get(error.errno or 0, "give a file in a folder that has room")
    return ActionUndoneError(f"cannot write {path}", (error.strerror or str(error)).lower(), hint)


def open_bundle(path: bytes) -> ReplayHost:
    """A recording as a file, or unpacked in a folder."""
    name = shown(path)
    content = _unpacked(path, name) if os.path.isdir(path) else _member_of(path, name)
    if len(content) > MOST_BYTES:
        raise _refused(name, f"it holds more than {MOST_BYTES >> 20} MiB")
    _, answers = decode(content.splitlines(), name)
    return ReplayHost(f"the recording {name}", answers)


def _unpacked(folder: bytes, name: str) -> bytes:
    try:
        descriptor = os.open(os.path.join(folder, MEMBER.encode()), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _refused(name, f"its {MEMBER} cannot be read: {(error.strerror or str(error)).lower()}") from error


def _member_of(path: bytes, name: str) -> bytes:
    found: bytes | None = None
    try:
        with tarfile.open(os.fsdecode(path), "r:*") as archive:
            for number, member in enumerate(archive):
                why = _why_unsafe(member, number)
                if why:
                    raise _refused(name, why)
                if member.name == MEMBER:
                    file = archive.extractfile(member)
                    found = file.read(MOST_BYTES + 1) if file else None
    except tarfile.ReadError as error:
        raise _refused(name, "it is neither a folder nor a readable recording") from error
    except _BROKEN as error:
        raise _refused(name, f"it is damaged ({_first_line(error)})") from error
    if found is None:
        raise _refused(name, f"there is no {MEMBER} in it")
    return found


def _why_unsafe(member: tarfile.TarInfo, number: int) -> str:
    name = shown(member.name.encode("utf-8", "surrogateescape"))
    if number >= MOST_MEMBERS:
        return f"it has more than {MOST_MEMBERS} members"
    if member.issym() or member.islnk():
        return f"its member {name} is a link (to {shown(member.linkname.encode('utf-8', 'surrogateescape'))})"
    if not member.isfile():
        return f"its member {name} is no plain file"
    if member.name.startswith("/") or ".." in member.name.split("/"):
        return f"its member {name} would leave the folder it is unpacked in"
    return f"its member {name} holds more than {MOST_BYTES >> 20} MiB" if member.size > MOST_BYTES else ""


def _refused(name: str, why: str) -> UsageError:
    return UsageError(f"cannot use {name} as a root", why, "make a new one: zombiescope record FILE")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
