# SPDX-License-Identifier: Apache-2.0
"""Watch for a window what a remedy should change and `verify` compares: the plan's zombies, its makers' restarts, the sweep, the
cores, throttling; under the names of the history, so that a window and a history say the same, by the agent's own tellers at
their own pace."""

from collections.abc import Callable, Mapping
from contextlib import closing
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

from zombiescope.analysis.maker import NO_PODS, Makers, unit_maker
from zombiescope.errors import ZombiescopeError, reason_of
from zombiescope.facts.cgroups import Look
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Sample
from zombiescope.facts.reclaim import Vitals
from zombiescope.host.access import Host
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.cgroup_census import read_live_tree, read_one_look
from zombiescope.probes.readers.cpu_time import read_throttling
from zombiescope.probes.readers.node import read_identity
from zombiescope.probes.readers.stat_sweep import read_stat_sweep
from zombiescope.probes.readers.systemd_state import read_systemd_state
from zombiescope.probes.readers.zombie_walk import read_zombie_walk
from zombiescope.watching.catalogue import PROBES, Probe
from zombiescope.watching.cores import CoresWatch
from zombiescope.watching.pods import names_now
from zombiescope.watching.watch import Teller

_LOOK_SECONDS = 0.1


class Treated:
    """What a plan is about: the zombies of these makers, or those a person asked for, or all."""

    def __init__(
        self, makers: tuple[str, ...], maker: str | None, below: bytes | None, zombie: int | None = None
    ) -> None:
        """`zombie`: only this one, by its id."""
        self.makers, self.maker, self.below, self.zombie = makers, maker, below, zombie

    def count(self, host: Host) -> int | None:
        if isinstance(walk := read_zombie_walk(host), Gap):
            return None if self.makers or self.maker or self.below or self.zombie is not None else all_zombies(host)
        if self.zombie is not None:
            return sum(zombie.id == self.zombie for zombie in walk.zombies)
        pods = names_now(host).makers if any(b"pod" in zombie.path for zombie in walk.zombies) else NO_PODS
        name = Makers(pods).of
        return sum(self._wants(name(zombie.path), zombie.parent) for zombie in walk.zombies)

    def _wants(self, maker: str, parent: bytes) -> bool:
        if self.maker is not None and not fnmatchcase(maker, self.maker):
            return False
        if self.below is not None and not (parent + b"/").startswith(self.below.rstrip(b"/") + b"/"):
            return False
        narrow = self.maker is not None or self.below is not None
        return narrow or not self.makers or maker in self.makers


def watch_vitals(
    host: Host,
    subject: Treated,
    seconds: float,
    progress: Callable[[float], None] = lambda _: None,
    beside: Callable[[], None] = lambda: None,
) -> Vitals:
    """`beside`: called at every look."""
    begin, at = host.monotonic(), host.wall_clock()
    first, restarts = subject.count(host), restarts_of(host, subject.makers)
    throttled = _throttled_seconds(host)
    cores = CoresWatch(host, _LOOK_SECONDS, seconds)
    while (passed := host.monotonic() - begin) < seconds:
        cores.look()
        beside()
        progress(passed)
        host.wait(min(_LOOK_SECONDS, seconds - passed))
    cores.look()
    seen, later = cores.seen(), _throttled_seconds(host)
    return Vitals(
        at,
        host.monotonic() - begin,
        all_zombies(host),
        first,
        subject.count(host),
        moved(restarts, restarts_of(host, subject.makers)),
        sweep_seconds(host),
        None if isinstance(seen, Gap) else round(seen.saturated_seconds, 3),
        None if isinstance(throttled, Gap) or isinstance(later, Gap) else max(later - throttled, 0.0),
    )


def restarts_of(host: Host, makers: tuple[str, ...]) -> dict[str, tuple[int, bool]] | None:
    """By unit, or by instance of a template: how often systemd restarted it, and whether it waits for the next."""
    if not any(maker.startswith("unit:") for maker in makers):
        return {}
    if isinstance(state := read_systemd_state(host), Gap):
        return None
    found = {name: unit for name, unit in state.items() if unit_maker(name) in makers}
    return {name: (unit.restarts or 0, unit.sub_state == "auto-restart") for name, unit in found.items()}


def moved(before: dict[str, tuple[int, bool]] | None, after: dict[str, tuple[int, bool]] | None) -> int | None:
    if before is None or after is None:
        return None
    return sum(max(count - before.get(name, (0, False))[0], int(waits)) for name, (count, waits) in after.items())


def all_zombies(host: Host) -> int | None:
    hierarchy = read_memory_hierarchy(host)
    look = hierarchy if isinstance(hierarchy, Gap) else read_one_look(host, hierarchy)
    return look.zombies if isinstance(look, Look) else None


def sweep_seconds(host: Host) -> float | None:
    if isinstance(hierarchy := read_memory_hierarchy(host), Gap):
        return None
    live = read_live_tree(host, hierarchy)
    sweep = live if isinstance(live, Gap) else read_stat_sweep(host, hierarchy, live.paths)
    return None if isinstance(sweep, Gap) else sweep.seconds


def _throttled_seconds(host: Host) -> float | Gap:
    found = read_throttling(host)
    return found if isinstance(found, Gap) else sum(group.seconds for group in found.values())


class Recovered(NamedTuple):
    """What a window saw."""

    vitals: Vitals
    samples: tuple[Sample, ...] = ()
    gaps: tuple[Gap, ...] = ()


def watch_recovery(
    host: Host, subject: Treated, seconds: float, progress: Callable[[float], None] = lambda _: None
) -> Recovered:
    """All that `verify` compares, for so long."""
    with closing(RecoveryWatch(host, subject, seconds)) as watch:
        vitals = watch_vitals(host, subject, seconds, progress, watch.look)
        return Recovered(vitals, watch.end(), tuple(watch.gaps))


_MOST_SAMPLES = 120
_COUNTS = 12
"""How often the plan's own zombies are counted: each is a walk."""


class RecoveryWatch:
    """`look` as often as you like; it does what is due."""

    def __init__(self, host: Host, subject: Treated, seconds: float) -> None:
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
            if isinstance(teller := self._guarded(probe.name, partial(probe.open, host)), Teller):
                self._tellers[probe.name] = (probe, teller)

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
        if (took := sweep_seconds(self._host)) is not None:
            self._values["sweep_seconds"] = took
        self._sample()
        self.close()
        return tuple(self.samples)

    def close(self) -> None:
        for _, teller in self._tellers.values():
            self._guarded("close", teller.close)
        self._tellers = {}

    def _read(self, name: str, teller: Teller) -> None:
        reading = self._guarded(name, teller.read)
        if reading is not None and not isinstance(reading, Gap):
            self._values |= reading.remembered  # type: ignore[attr-defined]

    def _guarded(self, name: str, work: Callable[[], object]) -> object:
        """One that fails is a gap, and the others go on."""
        try:
            return work()
        except (ZombiescopeError, OSError) as error:
            if name not in [gap.fact for gap in self.gaps]:
                self.gaps.append(Gap(name, reason_of(error), getattr(error, "hint", "")))
            self._tellers.pop(name, None)
        return None

    def _count(self) -> None:
        if (ours := self._subject.count(self._host)) is not None:
            self._values["ours"] = ours
        found = restarts_of(self._host, self._subject.makers)
        if found is not None and self._subject.makers:
            if self._first_restarts is None:
                self._first_restarts = found
            self._values["restarts"] = float(moved(dict(self._first_restarts), found) or 0)

    def _sample(self) -> None:
        values = dict(self._values)
        if (zombies := all_zombies(self._host)) is not None:
            values["zombies"] = zombies
        self.samples.append(Sample(len(self.samples), self._host.wall_clock(), self._boot, values))
        # Counted now and then: a number is a point once, when it was counted.
        for name in ("ours", "sweep_seconds"):
            self._values.pop(name, None)
