# SPDX-License-Identifier: Apache-2.0
"""A recorded machine: the same question at the same time gets the same answer, in the order it was given then."""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from zombiescope.host.access import NOT_RECORDED, READ_LIMIT_BYTES, DirectoryWalk
from zombiescope.host.recording import Answer, bytes_of

_Key = tuple[str, bytes]
_CLOCK: _Key = ("wall_clock", b"")


class _Track:
    """The answers to one question: by instant, and in order within an instant."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.answers: list[list[Answer]] = []
        self.asked: list[int] = []
        self.orders: list[list[int]] = []
        """Of each answer, how many of all questions were asked before."""

    def add(self, answer: Answer, order: int) -> None:
        if not self.times or answer.at > self.times[-1]:
            self.times.append(answer.at)
            self.answers.append([])
            self.asked.append(0)
            self.orders.append([])
        self.answers[-1].append(answer)
        self.orders[-1].append(order)

    def at(self, now: float) -> Answer:
        """The next one of the latest instant not after now; the last one of it again and again. The first, before all of them."""
        instant = self._instant(now)
        row, count = self.answers[instant], self.asked[instant]
        self.asked[instant] = count + 1
        return row[min(count, len(row) - 1)]

    def skip_to(self, order: int, now: float) -> None:
        """The last one of this instant that was given before that question comes next."""
        instant = self._instant(now)
        self.asked[instant] = max(bisect_right(self.orders[instant], order) - 1, self.asked[instant])

    def _instant(self, now: float) -> int:
        return max(bisect_right(self.times, now + 0.0005) - 1, 0)


class ReplayHost:
    is_live = False

    def __init__(self, label: str, answers: list[Answer]) -> None:
        self.label = label
        self._now = 0.0
        self._tracks: dict[_Key, _Track] = {}
        for order, answer in enumerate(answers):
            self._tracks.setdefault((answer.operation, answer.path), _Track()).add(answer, order)

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        content = bytes_of(self._ask("read", path))
        if len(content) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return content

    def subdirectories(self, path: bytes) -> list[bytes]:
        return [bytes_of(name) for name in self._ask("subdirectories", path)]

    def directories(self, path: bytes) -> DirectoryWalk:
        walk = self._ask("directories", path)
        return DirectoryWalk(
            tuple(bytes_of(entry) for entry in walk["paths"]),
            tuple(bytes_of(entry) for entry in walk["leaves"]),
            tuple((bytes_of(entry), int(getattr(errno, name))) for entry, name in walk["unreadable"]),
        )

    def inode(self, path: bytes) -> int | None:
        number = self._ask("inode", path)
        return None if number is None else int(number)

    def wait(self, seconds: float) -> None:
        self._now = round(self._now + seconds, 3)

    def go_to(self, path: bytes) -> None:
        """To when this file was first read, and to what the clock said then: before that nobody looked, and a file that stands
        still there did not stand still."""
        track, clock = self._tracks.get(("read", path)), self._tracks.get(_CLOCK)
        if track is None or track.times[0] <= self._now:
            return
        self._now = track.times[0]
        if clock is not None:
            clock.skip_to(track.orders[0][0], self._now)

    def seconds_left(self, path: bytes) -> float | None:
        """For which this file goes on being read; None where it never was."""
        track = self._tracks.get(("read", path))
        return None if track is None else max(track.times[-1] - self._now, 0.0)

    def wall_clock(self) -> float:
        track = self._tracks.get(_CLOCK)
        if track is None:
            return 0.0
        answer = track.at(self._now)
        return float(answer.value) + max(self._now - answer.at, 0.0)

    def monotonic(self) -> float:
        return self._now

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        del work
        track = self._tracks.get(("experiment", name.encode()))
        return None if track is None else track.at(self._now).value

    def _ask(self, operation: str, path: bytes) -> Any:
        track = self._tracks.get((operation, path))
        if track is None:
            raise OSError(errno.ENOENT, NOT_RECORDED, path)
        answer = track.at(self._now)
        if answer.error:
            code = int(getattr(errno, answer.error))
            raise OSError(code, os.strerror(code), path)
        return answer.value
