# SPDX-License-Identifier: Apache-2.0
"""The file a recording travels in: a tar archive of plain text members, read without unpacking anything.

An archive comes from a stranger: whatever in it is not a plain file with a plain name refuses the whole, and so does one that
unpacks to more than an honest one of its size. Its lines are read one after the other.
"""

import errno
import gzip
import io
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain

from zombiescope.errors import ActionUndoneError, reason_of
from zombiescope.facts.names import shown
from zombiescope.host.bounds import Budget, bounded, input_bytes
from zombiescope.host.images.streams import UNPACKING_ERRORS, Allowance, FileSource, opened
from zombiescope.host.images.tar import BLOCK, Member, TarError, Type, members
from zombiescope.host.recording import CARRIED, MEMBER, Answer, Header, ReplayHost, decode, encode, refused
from zombiescope.host.safe_open import open_regular
from zombiescope.host.whole_file import write_whole

MOST_BYTES, MOST_MEMBERS = 512 << 20, 100
_MEMORY_TIMES = 96
"""Recordings of very many zombies pack to a fifteenth, and an answer in memory takes six times what its line takes."""
_LONGEST_LINE = 64 << 20
"""One answer: a walk of a million directories."""

_NEITHER = "it is neither a folder nor a readable recording"


def pack(header: Header, answers: Iterable[Answer], carried: Mapping[str, Iterable[bytes]] | None = None) -> bytes:
    """The archive, with nothing in it that tells when, where or by whom it was packed. `carried`: lines by further member."""
    contents = {MEMBER: "\n".join(encode(header, answers)).encode() + b"\n"}
    contents |= {name: b"\n".join(lines) + b"\n" for name, lines in (carried or {}).items()}
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def publish(path: str, content: bytes, *, replace: bool) -> int:
    """Whole or not at all; returns the size."""
    try:
        write_whole(path, [content], replace=replace)
    except OSError as error:
        hint = {
            errno.EEXIST: "another name, or --force",
            errno.EPERM: "this file system has no links: give --force, or a file elsewhere",
        }.get(error.errno or 0, "choose a folder that has room and that you can write to")
        raise ActionUndoneError(f"cannot write {path}", reason_of(error), hint) from error
    return len(content)


def open_bundle(path: bytes) -> ReplayHost:
    """A recording as a file, or unpacked in a folder."""
    name = shown(path)
    with _member(path, MEMBER) as lines:
        _, answers = decode(lines, name)
    return ReplayHost(f"the recording {name}", answers)


def is_bundle(path: bytes) -> bool:
    """A file, or the folder that one was unpacked in."""
    return os.path.isfile(path) or os.path.lexists(os.path.join(path, MEMBER.encode()))


def read_carried(path: bytes, take: Callable[[str, Iterator[bytes]], None]) -> None:
    """Each member that a recording carries beside its answers: its name and its lines, to be read before the next one is."""
    for member in CARRIED:
        if os.path.isdir(path) and not os.path.lexists(os.path.join(path, member.encode())):
            continue
        with _member(path, member, is_needed=False) as lines:
            if (first := next(lines, None)) is not None:
                take(member, chain((first,), lines))


@contextmanager
def _member(path: bytes, member: str, *, is_needed: bool = True) -> Iterator[Iterator[bytes]]:
    """The lines of one member; none of one that is not there and need not be."""
    name = shown(path)
    file = os.path.join(path, member.encode()) if os.path.isdir(path) else path
    try:
        with (
            os.fdopen(open_regular(file, follow=file == path)[0], "rb") as packed,
            bounded(f"cannot use {name} as a root", Budget(input_bytes(os.fstat(packed.fileno())), _MEMORY_TIMES)),
        ):
            size = os.fstat(packed.fileno()).st_size
            if file == path and not size:
                raise refused(name, _NEITHER)
            source = FileSource(packed, lambda _done: None, size)
            of_archive = _member_of(source, name, Allowance(size), member, is_needed=is_needed)
            yield _lines(of_archive if file == path else _pieces(source), name)
    except EOFError as error:
        raise refused(name, "it is damaged (it ends too early)") from error
    except OSError as error:
        raise refused(
            name, f"{f'its {member}' if file != path else 'it'} cannot be read: {reason_of(error)}"
        ) from error
    except (TarError, *UNPACKING_ERRORS) as error:
        first_line = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise refused(name, f"{_NEITHER} ({first_line})") from error


def _member_of(source: FileSource, name: str, allowance: Allowance, wanted: str, *, is_needed: bool) -> Iterator[bytes]:
    """The content of the one member; all others are looked at too."""
    is_found = False
    for number, member in enumerate(members(opened(source, source.read(BLOCK), allowance))):
        if why := _why_unsafe(member, number):
            raise refused(name, why)
        if member.name == wanted.encode() and not is_found:
            is_found = True
            yield from _pieces(member)
    if not is_found and is_needed:
        raise refused(name, f"there is no {wanted} in it")


def _pieces(source: FileSource | Member) -> Iterator[bytes]:
    return iter(lambda: source.read(1 << 20), b"")


def _lines(pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
    total, rest = 0, b""
    for piece in pieces:
        total += len(piece)
        if total > MOST_BYTES or len(rest) > _LONGEST_LINE:
            raise refused(name, f"it holds more than {MOST_BYTES >> 20} MiB, or a line of {_LONGEST_LINE >> 20} MiB")
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
