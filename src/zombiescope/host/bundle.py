# SPDX-License-Identifier: Apache-2.0
"""The file a recording travels in: a tar archive with one member, read without unpacking anything.

An archive comes from a stranger: whatever in it is not a plain file with a plain name refuses the whole, and so does one that
unpacks to more than an honest one of its size. Its lines are read one after the other.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import secrets
import tarfile
from collections.abc import Iterable, Iterator

from zombiescope.errors import ActionUndoneError, UsageError
from zombiescope.facts.names import shown
from zombiescope.host.bounds import Budget, bounded, input_bytes
from zombiescope.host.images.streams import UNPACKING_ERRORS, Allowance, FileSource, opened
from zombiescope.host.images.tar import BLOCK, Member, TarError, Type, members
from zombiescope.host.recording import MEMBER, Answer, Header, decode, encode
from zombiescope.host.replay import ReplayHost

MOST_BYTES = 512 << 20
MOST_MEMBERS = 100
_MEMORY_TIMES = 96
"""Recordings of very many zombies pack to a fifteenth, and an answer in memory takes six times what its line takes."""
_LONGEST_LINE = 64 << 20
"""One answer: a walk of a million directories."""
_PIECE = 1 << 20
_NEITHER = "it is neither a folder nor a readable recording"
_BROKEN = (TarError, OSError, EOFError, *UNPACKING_ERRORS)


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
    file = os.path.join(path, MEMBER.encode()) if os.path.isdir(path) else path
    try:
        with (
            open(file, "rb", opener=_without_waiting) as packed,
            bounded(f"cannot use {name} as a root", Budget(input_bytes(os.fstat(packed.fileno())), _MEMORY_TIMES)),
        ):
            size = os.fstat(packed.fileno()).st_size
            if file == path and not size:
                raise _refused(name, _NEITHER)
            source = FileSource(packed, lambda _done: None, size)
            pieces = _pieces(source) if file != path else _member_of(source, name, Allowance(size))
            _, answers = decode(_lines(pieces, name), name)
    except EOFError as error:
        raise _refused(name, "it is damaged (it ends too early)") from error
    except _BROKEN as error:
        raise _refused(name, _why(error, is_unpacked=file != path)) from error
    return ReplayHost(f"the recording {name}", answers)


def _without_waiting(path: str, flags: int) -> int:
    """No link instead of the file in a folder, and no pipe that never answers."""
    flags |= (
        os.O_NONBLOCK | os.O_CLOEXEC | (os.O_NOFOLLOW if os.path.basename(path) in (MEMBER, MEMBER.encode()) else 0)
    )
    return os.open(path, flags)


def _why(error: Exception, *, is_unpacked: bool) -> str:
    if isinstance(error, OSError):
        return f"{f'its {MEMBER}' if is_unpacked else 'it'} cannot be read: {(error.strerror or str(error)).lower()}"
    return f"{_NEITHER} ({_first_line(error)})"


def _member_of(source: FileSource, name: str, allowance: Allowance) -> Iterator[bytes]:
    """The content of the one member; all others are looked at too."""
    is_found = False
    for number, member in enumerate(members(opened(source, source.read(BLOCK), allowance))):
        why = _why_unsafe(member, number)
        if why:
            raise _refused(name, why)
        if member.name == MEMBER.encode() and not is_found:
            is_found = True
            yield from _pieces(member)
    if not is_found:
        raise _refused(name, f"there is no {MEMBER} in it")


def _pieces(source: FileSource | Member) -> Iterator[bytes]:
    while piece := source.read(_PIECE):
        yield piece


def _lines(pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
    total, rest = 0, b""
    for piece in pieces:
        total += len(piece)
        if total > MOST_BYTES or len(rest) > _LONGEST_LINE:
            raise _refused(name, f"it holds more than {MOST_BYTES >> 20} MiB, or a line of {_LONGEST_LINE >> 20} MiB")
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _why_unsafe(member: Member, number: int) -> str:
    name = shown(member.name)
    if number >= MOST_MEMBERS:
        return f"it has more than {MOST_MEMBERS} members"
    if member.type in (Type.LINK, Type.HARD_LINK):
        return f"its member {name} is a link (to {shown(member.target)})"
    if member.type is not Type.FILE:
        return f"its member {name} is no plain file"
    if member.name.startswith(b"/") or b".." in member.name.split(b"/"):
        return f"its member {name} would leave the folder it is unpacked in"
    return f"its member {name} holds more than {MOST_BYTES >> 20} MiB" if member.size > MOST_BYTES else ""


def _refused(name: str, why: str) -> UsageError:
    return UsageError(f"cannot use {name} as a root", why, "make a new one: zombiescope record FILE")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
