# SPDX-License-Identifier: Apache-2.0
"""Births, deaths and releases by maker, live: `top`. The ledger is opened when it begins and closed when it ends. Above them what
zombies do to the machine: `top_signs.py`."""

from typing import NamedTuple

from zombiescope.analysis.ledger import Account, Accounts
from zombiescope.analysis.pod_owner import PodBook
from zombiescope.facts.cgroups import Hierarchy, Look, Sweep
from zombiescope.facts.cores import CoresSeen
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, EventTier, Lifecycle
from zombiescope.facts.pods import POD_PREFIX
from zombiescope.host.access import Host
from zombiescope.pipeline.asking_pods import remembered_in
from zombiescope.probes.readers.cgroup_census import read_live_tree
from zombiescope.probes.readers.stat_sweep import read_stat_sweep
from zombiescope.watching.cgroups import Follower, read_backlog
from zombiescope.watching.cores import CoresWatch
from zombiescope.watching.nics import FollowedNicsWatch
from zombiescope.watching.pods import names_now

SWEEP_SECONDS = 300.0


class Signs(NamedTuple):
    cores: CoresSeen | Gap
    """Of the last ten minutes at most."""
    sweep: Sweep | Gap
    resets: tuple[tuple[str, str, int], ...] | Gap
    """Device, reason, how many since watching began."""


class SignsWatch:
    def __init__(self, host: Host, hierarchy: Hierarchy) -> None:
        self._host, self._hierarchy = host, hierarchy
        self._cores = CoresWatch(host)
        self._nics = FollowedNicsWatch(host)
        self._cores.look()
        self._time_a_sweep()

    def read(self) -> Signs:
        if self._host.monotonic() - self._swept >= SWEEP_SECONDS:
            self._time_a_sweep()
        self._cores.look()
        self._nics.look()
        counted = sorted(self._nics.counts.items())
        resets = tuple((device, str(reason), count) for (device, reason), count in counted if count)
        known = resets or (self._nics.gap.about("resets") if self._nics.gap else ())
        return Signs(self._cores.seen(), self._sweep, known)

    def close(self) -> None:
        self._nics.close()

    def _time_a_sweep(self) -> None:
        live = read_live_tree(self._host, self._hierarchy)
        self._sweep = live if isinstance(live, Gap) else read_stat_sweep(self._host, self._hierarchy, live.paths)
        self._swept = self._host.monotonic()


class Row(NamedTuple):
    account: Account
    lately: Counts
    """Since the picture before."""


class Picture(NamedTuple):
    at: float
    look: Look | Gap
    tier: EventTier | None
    lost: int | None
    seconds: float
    """Since the picture before."""
    rows: tuple[Row, ...]
    gaps: tuple[Gap, ...]
    signs: Signs | None = None


class Watching:
    def __init__(self, host: Host) -> None:
        self._follower = Follower(host)
        self._host = host
        self._signs = SignsWatch(host, self._follower.hierarchy)
        self._pods = PodBook()
        self._accounts = Accounts(self._pods.makers)
        self._last = host.monotonic()
        self._backlog = read_backlog(host)
        if not isinstance(self._backlog, Gap):
            self._accounts.open_with(self._backlog.by_maker, {})
        self._pods.load(remembered_in(None))
        self._accounts.rename({f"{POD_PREFIX}{uid}": maker for uid, maker in self._pods.makers.items()})
        self._name_pods()

    def _name_pods(self) -> None:
        """A pod's name comes after its first cgroup."""
        if any(maker.startswith(POD_PREFIX) and maker != f"{POD_PREFIX}*" for maker in self._accounts.zombies()):
            self._accounts.rename(self._pods.take(names_now(self._host).pods.values()))

    def picture(self) -> Picture:
        tick = self._follower.tick()
        now = self._host.monotonic()
        seconds, self._last = now - self._last, now
        events = tick.lifecycle
        gaps = [each for each in (tick.look, events, self._backlog) if isinstance(each, Gap)]
        if isinstance(events, Lifecycle):
            self._accounts.add(events.flows, events.other, sees_releases=events.tier is not EventTier.POLLING)
            gaps += events.gaps
            self._name_pods()
        lately = self._accounts.lately if isinstance(events, Lifecycle) else {}
        rows = tuple(Row(account, lately.get(account.maker, Counts())) for account in self._accounts.list())
        tier = events.tier if isinstance(events, Lifecycle) else None
        lost = events.lost if isinstance(events, Lifecycle) else None
        return Picture(tick.at, tick.look, tier, lost, seconds, rows, tuple(gaps), self._signs.read())

    def close(self) -> None:
        self._signs.close()
        self._follower.close()


def sorted_rows(picture: Picture, order: str) -> list[Row]:
    """By `zombies`, or by `births`, `deaths`, `releases` since the picture before; most first."""
    if order == "zombies":
        return sorted(picture.rows, key=lambda row: (-row.account.zombies, -row.lately.births, row.account.maker))
    return sorted(picture.rows, key=lambda row: (-getattr(row.lately, order), -row.account.zombies, row.account.maker))
