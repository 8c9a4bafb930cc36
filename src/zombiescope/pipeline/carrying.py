# SPDX-License-Identifier: Apache-2.0
"""What a recording carries beside its answers: the history of the agent, and captures. Out of the folders where they lie, and into
a private folder, for as long as somebody reads them."""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from zombiescope.errors import ObservationError, reason_of
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import our_part
from zombiescope.facts.names import raw, shown
from zombiescope.history.carrying import carry as carry_history
from zombiescope.history.carrying import lay_down, series_names
from zombiescope.host.bundle import is_bundle, read_carried
from zombiescope.host.recording import CAPTURES, HISTORY

_FOLDER = b"captures"
_READ_AS = "run as root, or as the agent's user"
_FILES = (b"history.db", b"history.log", _FOLDER)


class Places(NamedTuple):
    """Where a history and captures lie; None: nowhere."""

    state: bytes | None
    captures: bytes | None


class Words(NamedTuple):
    change: Callable[[str], str]
    """What a word becomes in a recording."""
    functions: Callable[[], frozenset[str]]
    """The kernel's, which may stay."""


class CarriedCaptures(NamedTuple):
    lines: tuple[bytes, ...] = ()
    captures: int = 0
    captures_in_all: int = 0
    damaged: int = 0


class Carrying(NamedTuple):
    """What is to travel. `captures` reads them: the profiler is entered from above only."""

    places: Places
    most_bytes: int
    captures: Callable[[bytes, Words, int], CarriedCaptures]


class Carried(NamedTuple):
    members: dict[str, tuple[bytes, ...]]
    hours: int = 0
    hours_in_all: int = 0
    begin: float = 0.0
    end: float = 0.0
    captures: int = 0
    captures_in_all: int = 0
    gaps: tuple[Gap, ...] = ()

    @property
    def words(self) -> str:
        """For whoever made the recording."""
        if not (self.hours_in_all or self.captures_in_all):
            return (
                "no history and no captures are in it"
                if self.gaps
                else "no history and no captures are kept on this host"
            )
        told = []
        if self.hours_in_all:
            days = f"{_day(self.begin)} to {_day(self.end)}" if self.hours else "none of it"
            left = (
                f", the newest {self.hours:,} of {self.hours_in_all:,} hours" if self.hours < self.hours_in_all else ""
            )
            told.append(f"history: {days}{left}")
        if self.captures_in_all:
            of = f" of {self.captures_in_all:,}, the newest" if self.captures < self.captures_in_all else ""
            told.append(f"captures: {self.captures:,}{of}")
        return "; ".join(told)

    @property
    def is_cut(self) -> bool:
        return self.hours < self.hours_in_all or self.captures < self.captures_in_all


NOTHING = Carried({})


def _day(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M}Z"


def carry(wanted: Carrying, words: Words) -> Carried:
    """History gets half of the room, captures what is left."""
    members: dict[str, tuple[bytes, ...]] = {}
    gaps: list[Gap] = []
    history = None
    state, folder = wanted.places
    if state is not None and os.path.isdir(state) and not os.access(state, os.R_OK | os.X_OK):
        gaps.append(Gap("history", "the state folder cannot be read: permission denied", _READ_AS))
    if state is not None and _has_any(state):
        try:
            history = carry_history(state, words.change, wanted.most_bytes // 2)
        except (OSError, sqlite3.Error) as error:
            gaps.append(Gap("history", f"it cannot be read: {reason_of(error)}", _READ_AS))
    if history is not None and history.lines:
        members[HISTORY] = history.lines
    left = wanted.most_bytes - sum(map(len, members.get(HISTORY, ())))
    captures = wanted.captures(folder, words, left) if folder is not None else CarriedCaptures()
    if captures.lines:
        members[CAPTURES] = captures.lines
    if captures.damaged:
        gaps.append(
            Gap("captures", f"{captures.damaged:,} could not be read and are left out", "zombiescope profile list")
        )
    found = Carried(members, captures=captures.captures, captures_in_all=captures.captures_in_all, gaps=tuple(gaps))
    if history is None:
        return found
    return found._replace(hours=history.hours, hours_in_all=history.hours_in_all, begin=history.begin, end=history.end)


def makers_in_history(state: bytes | None) -> list[bytes]:
    """Names of makers, which may stay where that was asked for."""
    if state is None or not _has_any(state):
        return []
    try:
        names = series_names(state)
    except (OSError, sqlite3.Error):
        return []
    return [raw(name.removeprefix(our_part(name))) for name in names]


def places(root: bytes | None, state: bytes | None, captures: bytes | None, usual: bytes | None) -> Places:
    """Where a history and captures lie: where they were said to be, or in the folder that was given as root: right in it, or as
    on the host that it stands for."""
    if state is None and root is not None and os.path.isdir(root):
        inside = (root, os.path.join(root, b"var/lib/zombiescope"))
        state = next((place for place in inside if _has_any(place)), None)
    elif state is None and root is None:
        state = usual
    if captures is None and state is not None:
        captures = os.path.join(state, _FOLDER)
    return Places(state, captures)


def _has_any(folder: bytes) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in _FILES)


LayDown = Callable[[Iterator[bytes], bytes], int]


@contextmanager
def opened_places(root: bytes | None, said: Places, usual: bytes | None, lay_captures: LayDown) -> Iterator[Places]:
    """As `places`; what a recording carries is laid into a folder that only we can reach, and that goes at the end."""
    found = places(root, said.state, said.captures, usual)
    if root is None or found.state is not None or not is_bundle(root):
        yield found
        return
    with tempfile.TemporaryDirectory(prefix="zombiescope-recording-") as folder:
        laid = _lay_down(root, os.fsencode(folder), lay_captures)
        yield Places(laid.state, said.captures or laid.captures)


def _lay_down(root: bytes, folder: bytes, lay_captures: LayDown) -> Places:
    captures = os.path.join(folder, _FOLDER)
    laid: set[str] = set()

    def take(member: str, lines: Iterator[bytes]) -> None:
        laid.add(member)
        try:
            if member == HISTORY:
                lay_down(lines, os.fsdecode(folder))
            else:
                os.mkdir(captures, 0o700)
                lay_captures(lines, captures)
        except (OSError, sqlite3.OperationalError) as error:
            hint = "make room in the folder for temporary files, or name another: TMPDIR=DIR"
            raise ObservationError(f"cannot lay out what {shown(root)} carries", reason_of(error), hint) from error

    read_carried(root, take)
    return Places(folder if HISTORY in laid else None, captures if CAPTURES in laid else None)
