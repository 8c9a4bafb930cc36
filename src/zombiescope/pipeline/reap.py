# SPDX-License-Identifier: Apache-2.0
"""Keep the stock of zombies down, pass after pass, within a budget: `reap`.

A pass looks (cheap), walks only where there is something to win, journals what it will evict, evicts, and judges itself by
what came of it when it looks again. It rests longer each time there is nothing to do, and stops for good when it harms.
"""

import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from zombiescope.analysis.autopsy import Body, derive_autopsy
from zombiescope.analysis.reaping import (
    HARMFUL_PASSES,
    Lesson,
    Pass,
    ReapChoice,
    Reaping,
    Tally,
    choose,
    freed,
    harmed,
    learn,
    pressed,
    refault_rate,
    usual_rate,
    wait_seconds,
)
from zombiescope.errors import ObservationError
from zombiescope.execution.reap import ReapLog, evict
from zombiescope.facts.cgroups import Look
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.reaping import Evicted, EvictionOrder, Health, ReapBudget
from zombiescope.facts.remedies import Remedy
from zombiescope.host.access import Host
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.cgroup_census import read_one_look
from zombiescope.probes.readers.node import read_identity, read_machine_health, read_reclaimable_cache
from zombiescope.probes.readers.zombie_walk import read_zombie_serials, read_zombie_walk

_RATES_KEPT = 32
_LIVE_SHARE = 0.2
"""Of a parent's cache that may belong to live cgroups where reclaim on it is the only lever."""
_NOTHING = ReapChoice((), 0, {})


class Scope(NamedTuple):
    """Whose zombies may be touched; everybody's by default."""

    maker: str | None = None
    parent: bytes | None = None
    """A live cgroup: zombies at and below it."""


class Reaper:
    def __init__(self, host: Host, budget: ReapBudget, scope: Scope, log: ReapLog | None) -> None:
        """Without a log it only says what it would do. Raises ObservationError where the zombies cannot be seen."""
        hierarchy = read_memory_hierarchy(host)
        if isinstance(hierarchy, Gap):
            raise ObservationError("cannot find the memory cgroups", hierarchy.reason, hierarchy.hint)
        self._host, self._hierarchy, self._budget, self._scope, self._log = host, hierarchy, budget, scope, log
        self._lessons: Mapping[bytes, Lesson] = {}
        self._before: tuple[Evicted, ...] = ()
        self._health: Health | None = None
        self._rates: list[float] = []
        self._harmful = 0
        self._idle = 0
        self._barren_at: tuple[int, float] | None = None
        self._barren = _NOTHING
        self._began = host.monotonic()
        self._identity = read_identity(host)
        self.tally = Tally()

    def run_pass(self) -> Pass:
        began = time.process_time()
        at, now = self._host.wall_clock(), self._host.monotonic()
        zombies = self._count()
        gone = self._learn(now)
        state, why, choice, done = self._decide(zombies, now)
        self._idle = 0 if state in (Reaping.EVICTED, Reaping.PRESSED) else self._idle + 1
        self._before = done
        cost = time.process_time() - began
        self._add(gone, done, cost)
        return Pass(at, self._identity, state, why, zombies, choice, done, gone, self._wait(state, cost), self.tally)

    def settle(self) -> None:
        """Counts what the last pass freed, for one that is not followed by another."""
        self._add(self._learn(self._host.monotonic()), (), 0.0, passes=0)
        self._before = ()

    def _wait(self, state: Reaping, cost_seconds: float) -> float:
        """A stock that only lies below the limit is looked at as often as ever: the look is cheap and the leak goes on."""
        idle = 0 if state is Reaping.FEW else self._idle
        return wait_seconds(cost_seconds, idle, self._budget)

    def _count(self) -> int:
        look = read_one_look(self._host, self._hierarchy)
        if isinstance(look, Look):
            return look.zombies
        raise ObservationError("cannot count the zombies", look.reason, look.hint)

    def _learn(self, now: float) -> int:
        """What came of the pass before."""
        if not self._before:
            return 0
        there = read_zombie_serials(self._host)
        if isinstance(there, Gap):
            return 0
        self._lessons = learn(self._lessons, self._before, there, now)
        return freed(self._before, there)

    def _decide(self, zombies: int, now: float) -> tuple[Reaping, str, ReapChoice, tuple[Evicted, ...]]:
        health = read_machine_health(self._host)
        harm = self._judge(health)
        if harm and self._harmful >= HARMFUL_PASSES:
            return Reaping.STOPPED, harm, _NOTHING, ()
        if zombies <= self._budget.leave:
            return Reaping.FEW, f"up to {self._budget.leave:,} are left alone", _NOTHING, ()
        why = harm or pressed(health, self._budget)
        if why:
            return Reaping.PRESSED, why, _NOTHING, ()
        if self._is_known_barren(zombies, now):
            return Reaping.RESTING, "nothing could be evicted the last time, and no more have come", self._barren, ()
        return self._evict(zombies, now)

    def _judge(self, health: Health) -> str | None:
        """Refaults since the last look, against the looks after which nothing had been evicted."""
        rate = refault_rate(self._health, health) if self._health else None
        self._health = health
        if not any(each.pages != 0 for each in self._before):
            if rate is not None:
                self._rates = [*self._rates, rate][-_RATES_KEPT:]
            return None
        harm = harmed(rate, usual_rate(self._rates), self._budget)
        self._harmful = self._harmful + 1 if harm else 0
        return harm

    def _is_known_barren(self, zombies: int, now: float) -> bool:
        if self._barren_at is None:
            return False
        count, until = self._barren_at
        return now < until and zombies <= count + max(50, count // 50)

    def _evict(self, zombies: int, now: float) -> tuple[Reaping, str, ReapChoice, tuple[Evicted, ...]]:
        bodies = self._bodies()
        most = max(int(self._budget.pages_per_second * self._budget.interval_seconds), 1)
        choice = choose(bodies, self._levers(bodies), self._lessons, now, most)
        if not choice.orders:
            self._barren_at, self._barren = (zombies, now + self._budget.longest_seconds), choice
            total = sum(choice.left.values())
            return Reaping.NOTHING_EVICTABLE, f"eviction cannot free any of the {total:,} in question", choice, ()
        self._barren_at = None
        hoped = len(frozenset().union(*(order.zombies for order in choice.orders)))
        if self._log is None:
            return Reaping.WOULD_EVICT, f"{hoped:,} zombies would go; --yes does it", choice, ()
        self._log.write({"at": self._host.wall_clock(), "orders": [_order(order) for order in choice.orders]})
        root: bytes = getattr(self._host, "root", b"")
        done = tuple(evict(order, self._hierarchy.mount_point, root) for order in choice.orders)
        return Reaping.EVICTED, f"{hoped:,} should go", choice, done

    def _bodies(self) -> tuple[Body, ...]:
        walk = read_zombie_walk(self._host)
        if isinstance(walk, Gap):
            raise ObservationError("cannot see the zombies one by one", walk.reason, walk.hint)
        self.tally = self.tally._replace(walks=self.tally.walks + 1)
        return tuple(body for body in derive_autopsy(walk, None, None).bodies if self._is_ours(body))

    def _is_ours(self, body: Body) -> bool:
        if self._scope.maker is not None and not fnmatchcase(body.maker, self._scope.maker):
            return False
        above = self._scope.parent
        if above is None:
            return True
        return body.zombie.parent == above or body.zombie.parent.startswith(above.rstrip(b"/") + b"/")

    def _levers(self, bodies: tuple[Body, ...]) -> frozenset[bytes]:
        """Reclaim on a parent is a lever where nearly all of its cache is its zombies'."""
        dead: dict[bytes, int] = {}
        for body in bodies:
            dead[body.zombie.parent] = dead.get(body.zombie.parent, 0) + (body.zombie.pages.file or 0)
        fit = set()
        for parent, pages in dead.items():
            cached = read_reclaimable_cache(self._host, self._hierarchy, parent) if parent != b"/" else None
            if cached and pages * PAGE_BYTES >= (1 - _LIVE_SHARE) * cached:
                fit.add(parent)
        return frozenset(fit)

    def _add(self, gone: int, done: tuple[Evicted, ...], cost: float, passes: int = 1) -> None:
        tally = self.tally
        self.tally = tally._replace(
            passes=tally.passes + passes,
            freed=tally.freed + gone,
            pages=tally.pages + sum(each.pages or 0 for each in done),
            refused=tally.refused + sum(each.refused is not None for each in done),
            cpu_seconds=tally.cpu_seconds + cost,
            seconds=self._host.monotonic() - self._began,
        )


def keep_down(reaper: Reaper, told: Callable[[Pass], None], wait: Callable[[float], bool]) -> Pass:
    """Pass after pass until it harms, or `wait` says that it is over. The last pass."""
    while True:
        each = reaper.run_pass()
        told(each)
        if each.state is Reaping.STOPPED or not wait(each.wait_seconds):
            return each


def _order(order: EvictionOrder) -> dict[str, Any]:
    kind = "file" if order.lever is Remedy.DROP_FILE else "cgroup"
    return {
        "lever": order.lever.key,
        kind: shown(order.target),
        "parent": shown(order.parent),
        "pages": order.pages,
        "zombies": len(order.zombies),
    }
