# SPDX-License-Identifier: Apache-2.0
"""Keep what the agent saw: samples and happenings into the store of its state folder; a store that fails is said, never fatal."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress

from zombiescope.analysis.day import Day
from zombiescope.analysis.pod_owner import VERSION, PodBook, later_version
from zombiescope.config import Config
from zombiescope.errors import reason_of, unknown_format
from zombiescope.facts.gap import Gap
from zombiescope.history.log import POD_FILE, read_pod_file, write_pod_file
from zombiescope.history.store import Store
from zombiescope.watching.cgroups import Follower

_PODS_SECONDS = 60.0


class Keeper:
    def __init__(self, follower: Follower, config: Config) -> None:
        self._host = follower.host
        self._boot = follower.identity.boot_id or "unknown"
        self._pods_kept, self._pods_at = 0, float("-inf")
        self._pods_are_later = False
        self._pods_trouble: str | None = None
        """Why names of pods are not kept; None: there never was a reason."""
        self.day = Day()
        """The last day, for small pictures: as far as this agent has seen it, or was told."""
        folder, days = config.text("state"), config.number("retention_days")
        most = int(config.number("retention_megabytes") * 1e6)
        self._store = Store(folder, days=days, most_bytes=most) if folder else None

    def new_notes(self) -> list[str]:
        """What was put aside since the last time, and what of it is kept."""
        if self._store is None:
            return []
        notes, self._store.notes = self._store.notes, []
        if self._store.dropped and self._store.trouble is None:
            notes.append(f"{self._store.dropped:,} samples waited too long for the store and are lost")
            self._store.dropped = 0
        return notes

    def gaps(self) -> Iterator[tuple[str, Gap | None]]:
        """By what it is about: what is not kept, or that it is kept again."""
        yield "history", self.gap
        if self._pods_trouble is not None:
            yield "pods", Gap("pods", self._pods_trouble) if self._pods_trouble else None

    @property
    def gap(self) -> Gap | None:
        if self._store is None:
            return Gap("history", "no state folder is configured", "zombiescope agent --state DIR")
        trouble = self._store.trouble
        return Gap("history", f"{trouble.what}: {trouble.why}") if trouble else None

    def keep(self, at: float, values: dict[str, float]) -> None:
        self.day.take(at, values)
        if self._store is not None:
            self._store.add_sample(at, self._boot, values)

    def happened(self, what: str, detail: str, at: float | None = None) -> None:
        """Now, unless it was seen to happen earlier."""
        when = self._host.wall_clock() if at is None else at
        self.day.happened(when, what, detail)
        if self._store is not None:
            self._store.add_happening(when, self._boot, what, detail)

    def recall_pods(self, book: PodBook) -> None:
        """What an agent before this one remembered; of a file that is damaged, nothing; one of a later version is left alone."""
        if self._store is None:
            return
        with suppress(OSError, ValueError, RecursionError):
            plain = json.loads(read_pod_file(os.fsencode(self._store.folder)) or b"{}")
            book.load(plain)
            if (later := later_version(plain)) is not None:
                why = unknown_format(f"version {later}"[:40], f"version {VERSION}")
                self._pods_are_later, self._pods_trouble = True, f"{POD_FILE}: {why}"
        self._pods_kept = book.version

    def keep_pods(self, book: PodBook, now: float, *, at_once: bool = False) -> None:
        """Where something is new, at most once a minute. `now`: seconds on a clock that only goes forward."""
        is_due = at_once or now - self._pods_at >= _PODS_SECONDS
        if (
            self._store is None
            or self._store.trouble
            or self._pods_are_later
            or book.version == self._pods_kept
            or not is_due
        ):
            return
        self._pods_at = now
        text = json.dumps(book.to_plain(), separators=(",", ":")).encode()
        try:
            write_pod_file(os.fsencode(self._store.folder), text)
            self._pods_kept = book.version
            self._pods_trouble = None if self._pods_trouble is None else ""
        except OSError as error:
            self._pods_trouble = f"{POD_FILE}: {reason_of(error)}"

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
