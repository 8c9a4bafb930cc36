# SPDX-License-Identifier: Apache-2.0
"""Keep what the agent saw: samples and happenings into the store of its state folder; a store that fails is said, never fatal."""

from __future__ import annotations

from zombiescope.analysis.day import Day
from zombiescope.config import Config
from zombiescope.facts.gap import Gap
from zombiescope.history.store import Store
from zombiescope.watching.cgroups import Follower


class Keeper:
    def __init__(self, follower: Follower, config: Config) -> None:
        self._host = follower.host
        self._boot = follower.identity.boot_id or "unknown"
        self.day = Day()
        """The last day, for small pictures: as far as this agent has seen it, or was told."""
        folder = config.text("state")
        most = int(config.number("retention_megabytes") * 1e6)
        self._store = Store(folder, days=config.number("retention_days"), most_bytes=most) if folder else None

    def new_notes(self) -> list[str]:
        """What was put aside since the last time, and what of it is kept."""
        if self._store is None:
            return []
        notes, self._store.notes = self._store.notes, []
        if self._store.dropped and self._store.trouble is None:
            notes.append(f"{self._store.dropped:,} samples waited too long for the store and are lost")
            self._store.dropped = 0
        return notes

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

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
