# SPDX-License-Identifier: Apache-2.0
"""A host that keeps every answer it passes on, scrubbed: a support bundle that is also a test machine."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, TypeVar

from zombiescope.host.access import READ_LIMIT_BYTES, DirectoryWalk, Host
from zombiescope.host.recording import Answer, text_of
from zombiescope.host.scrub import Scrubber

T = TypeVar("T")


class RecordingHost:
    """Looks like the host it wraps; `answers` is what was seen."""

    def __init__(self, host: Host, scrubber: Scrubber) -> None:
        self._host = host
        self._scrubber = scrubber
        self._now = 0.0
        self._listed: set[bytes] = set()
        self._is_experimenting = False
        self.answers: list[Answer] = []

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
        def shape(content: bytes) -> str:
            return text_of(self._scrubber.content(path, content))

        return self._ask("read", path, lambda: self._host.read(path, limit), shape)

    def subdirectories(self, path: bytes) -> list[bytes]:
        def shape(names: list[bytes]) -> list[str]:
            return [text_of(self._scrubber.path(name)) for name in names]

        names = self._ask("subdirectories", path, lambda: self._host.subdirectories(path), shape)
        self._listed.update(path.rstrip(b"/") + b"/" + name for name in names)
        return names

    def directories(self, path: bytes) -> DirectoryWalk:
        walk = self._ask("directories", path, lambda: self._host.directories(path), self._shape_of_a_walk)
        self._listed.update(path.rstrip(b"/") + place.rstrip(b"/") for place in walk.paths)
        return walk

    def _shape_of_a_walk(self, walk: DirectoryWalk) -> dict[str, Any]:
        return {
            "paths": [text_of(self._scrubber.path(path)) for path in walk.paths],
            "leaves": [text_of(self._scrubber.path(path)) for path in walk.leaves],
            "unreadable": [[text_of(self._scrubber.path(path)), _name(code)] for path, code in walk.unreadable],
        }

    def inode(self, path: bytes) -> int | None:
        return self._ask("inode", path, lambda: self._host.inode(path), _as_it_is)

    def wait(self, seconds: float) -> None:
        self._host.wait(seconds)
        self._now = round(self._now + seconds, 3)

    def wall_clock(self) -> float:
        return self._ask("wall_clock", b"", self._host.wall_clock, _as_it_is)

    def monotonic(self) -> float:
        return self._host.monotonic()

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """What is read inside is part of the experiment; its outcome is kept instead."""
        self._is_experimenting = True
        try:
            outcome = self._host.experiment(name, work)
        finally:
            self._is_experimenting = False
        self._keep(Answer(self._now, "experiment", name.encode(), self._scrubber.outcome(outcome)))
        return outcome

    def keep_outcome(self, name: str, outcome: dict[str, Any]) -> None:
        """Of an experiment that was done elsewhere, and scrubbed there."""
        self._keep(Answer(self._now, "experiment", name.encode(), outcome))

    def _ask(self, operation: str, path: bytes, question: Callable[[], T], shape: Callable[[T], Any]) -> T:
        scrubbed = self._scrubber.path(path)
        try:
            answer = question()
        except OSError as error:
            self._keep(Answer(self._now, operation, scrubbed, None, self._errno_of(path, error)))
            raise
        self._keep(Answer(self._now, operation, scrubbed, shape(answer)))
        return answer

    def _errno_of(self, path: bytes, error: OSError) -> str:
        """A directory that was listed and is gone vanished meanwhile: said so, for in a folder ENOENT means 'was never kept'."""
        folder = path.rpartition(b"/")[0]
        is_gone = error.errno == errno.ENOENT and folder in self._listed and not self._is_there(folder)
        return "ENODEV" if is_gone else _name(error.errno)

    def _is_there(self, path: bytes) -> bool:
        try:
            self._host.subdirectories(path)
        except OSError:
            return False
        return True

    def _keep(self, answer: Answer) -> None:
        if not self._is_experimenting or answer.operation == "experiment":
            self.answers.append(answer)


def _as_it_is(value: float | None) -> float | None:
    return value


def _name(code: int | None) -> str:
    return errno.errorcode.get(code or errno.EIO, "EIO")
