# SPDX-License-Identifier: Apache-2.0
"""Watch for a window all that `verify` compares, under the names of the history, so that a window and a history say the same:
the agent's own tellers at their own pace, the plan's zombies and its makers' restarts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zombiescope.errors import ZombiescopeError
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Sample
from zombiescope.host.access import Host
from zombiescope.probes.readers.node import read_identity
from zombiescope.watching.catalogue import PROBES, Probe
from zombiescope.watching.vitals import Subject, all_zombies, moved, restarts_of, sweep_seconds
from zombiescope.watching.watch import Teller

_MOST_SAMPLES = 120
_COUNTS = 12
"""How often the plan's own zombies are counted: each is a walk."""


class RecoveryWatch:
    """`look` as often as you like; it does what is due."""

    def __init__(self, host: Host, subject: Subject, seconds: float) -> None:
        self._host, self._subject = host, subject
        self._boot = read_identity(host).boot_id or "unknown"
        self._every = max(seconds / _MOST_SAMPLES, 0.5)
        self._count_every = max(seconds / _COUNTS, 1.0)
        self._due = {"sample": float("-inf"), "count": float("-inf")}
        self._tellers: dict[str, tuple[Probe, Teller]] = {}
        self._values: dict[str, float] = {}
        self._first_restarts: Mapping[str, tuple[int, bool]] | None = None
        self.samples: list[Sample] = []
        self.gaps: list[Gap] = []
        for probe in PROBES:
            self._open(probe)

    def look(self) -> None:
        now = self._host.monotonic()
        for name, (probe, teller) in list(self._tellers.items()):
            if now >= self._due.get(name, float("-inf")):
                self._due[name] = now + min(probe.seconds, self._every)
                self._read(name, teller)
        if now >= self._due["count"]:
            self._due["count"] = now + self._count_every
            self._count()
        if now >= self._due["sample"]:
            self._due["sample"] = now + self._every
            self._sample()

    def end(self) -> tuple[Sample, ...]:
        """After the last look."""
        for name, (_, teller) in list(self._tellers.items()):
            self._read(name, teller)
        self._count()
        took = sweep_seconds(self._host)
        if took is not None:
            self._values["sweep_seconds"] = took
        self._sample()
        self.close()
        return tuple(self.samples)

    def close(self) -> None:
        for _, teller in self._tellers.values():
            self._guarded("close", teller.close)
        self._tellers = {}

    def _open(self, probe: Probe) -> None:
        teller = self._guarded(probe.name, lambda: probe.open(self._host))
        if isinstance(teller, Teller):
            self._tellers[probe.name] = (probe, teller)

    def _read(self, name: str, teller: Teller) -> None:
        reading = self._guarded(name, teller.read)
        if reading is not None and not isinstance(reading, Gap):
            self._values |= reading.remembered  # type: ignore[attr-defined]

    def _guarded(self, name: str, work: Callable[[], object]) -> object:
        """One that fails is a gap, and the others go on."""
        try:
            return work()
        except ZombiescopeError as error:
            why, hint = error.why, error.hint
        except OSError as error:
            why, hint = (error.strerror or str(error)).lower(), ""
        if name not in [gap.fact for gap in self.gaps]:
            self.gaps.append(Gap(name, why, hint))
        self._tellers.pop(name, None)
        return None

    def _count(self) -> None:
        ours = self._subject.count(self._host)
        if ours is not None:
            self._values["ours"] = ours
        found = restarts_of(self._host, self._subject.makers)
        if found is not None and self._subject.makers:
            if self._first_restarts is None:
                self._first_restarts = found
            self._values["restarts"] = float(moved(dict(self._first_restarts), found) or 0)

    def _sample(self) -> None:
        zombies = all_zombies(self._host)
        values = dict(self._values)
        if zombies is not None:
            values["zombies"] = zombies
        self.samples.append(Sample(len(self.samples), self._host.wall_clock(), self._boot, values))
        # Counted now and then: a number is a point once, when it was counted.
        for name in ("ours", "sweep_seconds"):
            self._values.pop(name, None)
