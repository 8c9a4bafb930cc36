# SPDX-License-Identifier: Apache-2.0
"""A host that keeps every answer it passes on, scrubbed: a support bundle that is also a test machine."""

import errno
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from zombiescope.host.access import READ_LIMIT_BYTES, DirectoryWalk, Host, answers
from zombiescope.host.known_names import SHORTEST, UID, WORD, KnownNames, is_name, telling
from zombiescope.host.recording import CARRIED, MEMBER, PACKED, Answer, bytes_of, text_of
from zombiescope.host.scrub import Scrubber, is_kernels_own, strings_of

_WORDS = re.compile(UID + rb"|" + WORD)
_ADDRESSES = re.compile(rb"[0-9A-Fa-f:.]{3,}")


class Leak(NamedTuple):
    name: bytes
    where: str
    """The question whose answer still has it, by its number: the path itself may be the secret."""


def find_leaks(
    archive: bytes, known: KnownNames, kept: frozenset[bytes] | set[bytes], functions: frozenset[str] = frozenset()
) -> list[Leak]:
    """`kept`: words that name nobody. `functions`: of the kernel, which profiles name. Longest names first."""
    texts = _texts(archive, frozenset(bytes_of(name) for name in functions))
    found: dict[bytes, str] = {}
    names = telling(b"\n".join(known.everything()), kept)
    for word, where in _first_places(texts, _WORDS).items():
        for name in telling(word, kept) & names:
            found.setdefault(name, where)
    addresses = {address.lower() for address in known.addresses}
    for part, where in _first_places(texts, _ADDRESSES).items():
        if {part, part.strip(b".:")} & addresses:
            found.setdefault(part, where)
    # Names of several words, such as a domain: each word may be common, and all of them together are not.
    people = (*known.hosts, *known.domains, *known.users)
    for name in {name.lower() for name in people if len(name) >= SHORTEST and is_name(name, kept)}:
        form = re.compile(rb"(?<![a-z0-9])" + re.escape(name) + rb"(?![a-z0-9])")
        if place := next((where for text, where in texts.items() if name in text and form.search(text)), ""):
            found[name] = place
    return [Leak(name, found[name]) for name in sorted(found, key=lambda name: (-len(name), name))]


def _first_places(texts: Mapping[bytes, str], form: re.Pattern[bytes]) -> dict[bytes, str]:
    places: dict[bytes, str] = {}
    for text, where in texts.items():
        for part in form.findall(text):
            places.setdefault(part, where)
    return places


def _texts(archive: bytes, functions: frozenset[bytes]) -> dict[bytes, str]:
    """Every text in the archive in small letters, with where it stands first."""
    texts: dict[bytes, str] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:*") as members:
        for member in members:
            about = (member.name, member.linkname, member.uname, member.gname, *member.pax_headers.values())
            texts["\n".join(about).encode("utf-8", "surrogateescape").lower()] = "the archive's table of contents"
            content = members.extractfile(member)
            for number, line in enumerate(content.read().splitlines() if content else (), 1):
                for text in _texts_of(member.name, line):
                    if text not in functions:
                        texts.setdefault(text.lower(), f"line {number} of {member.name}")
    return texts


def _texts_of(member: str, line: bytes) -> list[bytes]:
    """Of an answer that only the kernel can write, the question alone."""
    if member not in (*CARRIED, MEMBER):
        return [line]
    entry: dict[str, Any] = json.loads(line)
    if member in CARRIED:
        entry.pop(PACKED, None)  # numbers, as base64
    elif entry.get("ask") == "read" and is_kernels_own(bytes_of(entry["path"])):
        entry.pop("answer", None)
    return list(strings_of(entry))


T = TypeVar("T")


class _Seen(NamedTuple):
    """An answer as the machine gave it."""

    at: float
    operation: str
    path: bytes
    value: Any
    error: str = ""
    is_clean: bool = False


class RecordingHost:
    """Looks like the host it wraps; `answers` is what was seen."""

    def __init__(self, host: Host, scrubber: Scrubber) -> None:
        self._host, self._scrubber = host, scrubber
        self._now = 0.0
        self._listed: set[bytes] = set()
        self._is_experimenting = False
        self._seen: list[_Seen] = []

    @property
    def answers(self) -> list[Answer]:
        """What was seen, scrubbed: at the end, when every name that may stay has been met."""
        self.learn()
        return [self._scrubbed(seen) for seen in self._seen]

    def learn(self) -> None:
        """Show the scrubber the names of units and cgroups: it keeps them where that was asked for."""
        for seen in self._seen:
            if seen.operation == "directories":
                self._scrubber.learn(seen.value.paths if seen.value else ())
            elif seen.operation == "experiment" and not seen.is_clean:
                self._scrubber.learn_outcome(text_of(seen.path), seen.value)

    @property
    def label(self) -> str:
        return self._host.label

    @property
    def beneath(self) -> Host:
        """For `beside_recording`."""
        return self._host

    @property
    def is_live(self) -> bool:
        return self._host.is_live

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        return self._ask("read", path, lambda: self._host.read(path, limit))

    def subdirectories(self, path: bytes) -> list[bytes]:
        names = self._ask("subdirectories", path, lambda: self._host.subdirectories(path))
        self._listed.update(path.rstrip(b"/") + b"/" + name for name in names)
        return names

    def directories(self, path: bytes) -> DirectoryWalk:
        walk = self._ask("directories", path, lambda: self._host.directories(path))
        self._listed.update(path.rstrip(b"/") + place.rstrip(b"/") for place in walk.paths)
        return walk

    def inode(self, path: bytes) -> int | None:
        return self._ask("inode", path, lambda: self._host.inode(path))

    def wait(self, seconds: float) -> None:
        self._host.wait(seconds)
        self._now = round(self._now + seconds, 3)

    def wall_clock(self) -> float:
        return self._ask("wall_clock", b"", self._host.wall_clock)

    def monotonic(self) -> float:
        return self._host.monotonic()

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """What is read inside is part of the experiment; its outcome is kept instead."""
        self._is_experimenting = True
        try:
            outcome = self._host.experiment(name, work)
        finally:
            self._is_experimenting = False
        self._seen.append(_Seen(self._now, "experiment", name.encode(), outcome))
        return outcome

    def keep_outcome(self, name: str, outcome: dict[str, Any]) -> None:
        """Of an experiment that was done elsewhere, and scrubbed there."""
        self._seen.append(_Seen(self._now, "experiment", name.encode(), outcome, is_clean=True))

    def _ask(self, operation: str, path: bytes, question: Callable[[], T]) -> T:
        try:
            answer = question()
        except OSError as error:
            self._keep(_Seen(self._now, operation, path, None, self._errno_of(path, error)))
            raise
        self._keep(_Seen(self._now, operation, path, answer))
        return answer

    def _errno_of(self, path: bytes, error: OSError) -> str:
        """A directory that was listed and is gone vanished meanwhile: said so, for in a folder ENOENT means 'was never kept'."""
        folder = path.rpartition(b"/")[0]
        is_lost = error.errno == errno.ENOENT and folder in self._listed
        return "ENODEV" if is_lost and not answers(self._host.subdirectories, folder) else _name(error.errno)

    def _keep(self, seen: _Seen) -> None:
        if not self._is_experimenting:
            self._seen.append(seen)

    def _scrubbed(self, seen: _Seen) -> Answer:
        at, operation, path, value, error, is_clean = seen
        if operation == "experiment":
            return Answer(at, operation, path, value if is_clean else self._scrubber.outcome(text_of(path), value))
        shaped = None if error else self._shaped(operation, path, value)
        return Answer(at, operation, self._scrubber.path(path), shaped, error)

    def _shaped(self, operation: str, path: bytes, value: Any) -> Any:
        match operation:
            case "read":
                return text_of(self._scrubber.content(path, value))
            case "subdirectories":
                return self._texts(value)
            case "directories":
                return {
                    "paths": self._texts(value.paths),
                    "leaves": self._texts(value.leaves),
                    "unreadable": [[*self._texts([place]), _name(code)] for place, code in value.unreadable],
                }
            case _:
                return value

    def _texts(self, names: Iterable[bytes]) -> list[str]:
        return [text_of(self._scrubber.path(name)) for name in names]


def _name(code: int | None) -> str:
    return errno.errorcode.get(code or errno.EIO, "EIO")
