# SPDX-License-Identifier: Apache-2.0
"""Documents that take much to make: worked out by a short-lived child when somebody asks, and kept packed.

Never made when nobody asks, and made again no sooner than its share of a core allows: who asks often cannot make the host work.
"""

from __future__ import annotations

import json
import selectors
import time
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from zombiescope.errors import ZombiescopeError
from zombiescope.host.children import ShortLived
from zombiescope.web.http import packed

_MOST_BYTES = 16 << 20
_MOST_SECONDS = 180.0
_STORIES = "stories"


class Kept(NamedTuple):
    body: bytes
    """JSON, packed."""
    etag: str


class Pace(NamedTuple):
    least_seconds: float
    """Between two, at the least."""
    share: float
    """Of one core, that all of them may take."""


NOTHING = Pace(1e9, 1.0)
"""For a page that has none of these documents."""


class Shelf:
    def __init__(
        self, selector: selectors.BaseSelector, make: Callable[[], bytes], pace: Pace, expected: float | None = None
    ) -> None:
        """`make` runs in the child, and says what `laid_out` made."""
        self._selector, self._make, self._pace = selector, make, pace
        self._kept: dict[str, Kept] = {}
        self._stories: list[tuple[int, bytes]] = []
        self._child: ShortLived | None = None
        self._until = self._next = 0.0
        self._began = 0.0
        self.about: dict[str, Any] = {}
        """Of what is kept: when it was made, what it cost, and what its maker added."""
        self.expected_seconds = expected
        self.why = ""
        """Why the last one failed; empty where it did not."""

    @property
    def is_making(self) -> bool:
        return self._child is not None

    @property
    def began_at(self) -> float:
        """By the clock of the wall, when the one that is being made was begun."""
        return self._began

    def want(self) -> None:
        """Somebody asks: one is begun unless one is being made, or the last is too young."""
        now = time.monotonic()
        if self._child is not None or now < self._next:
            return
        try:
            self._child = ShortLived(self._make, most=_MOST_BYTES)
        except OSError as error:
            self._failed(f"no process could be started: {(error.strerror or str(error)).lower()}")
            return
        self._until, self._began = now + _MOST_SECONDS, now
        self._selector.register(self._child.descriptor, selectors.EVENT_READ, self._spoke)

    def get(self, name: str) -> Kept | None:
        return self._kept.get(name)

    def story(self, number: int) -> dict[str, Any] | None:
        """One of many: only those beside it are unpacked."""
        place = bisect_right(self._stories, number, key=lambda each: each[0]) - 1
        if place < 0:
            return None
        found = json.loads(zlib.decompress(self._stories[place][1], 31))
        return next((each for each in found if each["id"] == number), None)

    def drop_late(self, now: float) -> None:
        if self._child is not None and now > self._until:
            self._end(kill=True)

    def close(self) -> None:
        if self._child is not None:
            self._end(kill=True)

    def _spoke(self, _: float) -> None:
        if self._child is not None and self._child.collect():
            self._end(kill=False)

    def _end(self, *, kill: bool) -> None:
        child, self._child = self._child, None
        assert child is not None
        self._selector.unregister(child.descriptor)
        took = time.monotonic() - self._began
        said = child.hand_over(kill=kill)
        if said is None:
            self._failed(
                f"it took longer than {_MOST_SECONDS:.0f} s" if kill else "the process that looked ended early"
            )
            return
        self._lay_down(said)
        self.expected_seconds = took
        cost = float(self.about.get("cpu_seconds") or 0.0)
        self._next = time.monotonic() + max(self._pace.least_seconds, cost / self._pace.share)

    def _failed(self, why: str) -> None:
        self.why = why
        self._next = time.monotonic() + self._pace.least_seconds

    def _lay_down(self, said: bytearray) -> None:
        """Part after part from its end, each gone from there before the next is taken: an agent has no room for it twice."""
        ends = said.index(b"\n")
        about = json.loads(said[:ends])
        self.why = str(about.pop("why", ""))
        if self.why:
            return
        self._kept, self._stories = {}, []
        for name, length, etag in reversed(about.pop("parts")):
            body = bytes(memoryview(said)[len(said) - length :])
            del said[len(said) - length :]
            if name == _STORIES:
                self._stories.append((int(etag), body))
            else:
                self._kept[name] = Kept(body, etag)
        self._stories.reverse()
        self.about = about


def laid_out(
    documents: Mapping[str, object], stories: Iterable[tuple[int, list[dict[str, Any]]]], about: Mapping[str, object]
) -> bytes:
    """What a child says: a line about it, then every document packed."""
    parts: list[tuple[str, int, str]] = []
    bodies: list[bytes] = []
    for name, document in documents.items():
        text = json.dumps(document, separators=(",", ":")).encode()
        bodies.append(packed(text))
        parts.append((name, len(bodies[-1]), etag_of(text)))
    for first, some in stories:
        bodies.append(packed(json.dumps(some, separators=(",", ":")).encode()))
        parts.append((_STORIES, len(bodies[-1]), str(first)))
    head = {**about, "cpu_seconds": time.process_time(), "parts": parts}
    return b"\n".join([json.dumps(head).encode(), b"".join(bodies)])


def failed(error: ZombiescopeError) -> bytes:
    return json.dumps({"why": f"{error.what}: {error.why}"}).encode() + b"\n"


def etag_of(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]
