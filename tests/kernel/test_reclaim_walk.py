# SPDX-License-Identifier: Apache-2.0
"""Reclaim over thousands of real zombies that it cannot free: timed by our window, against the clock of whoever asked for it."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.build import case, snapshot
from tests.kernel.confined import answer_of_child, refuse_bpf
from tests.kernel.conftest import not_here
from tests.kernel.zombie_maker import Maker

from zombiescope.analysis.scan import ReclaimPass
from zombiescope.analysis.zombie_cost import Payer, Walking, derive_payer, derive_works
from zombiescope.diagnosis.finding import Finding, Verdict
from zombiescope.diagnosis.rules import costly_reclaim_walk
from zombiescope.facts.cgroups import Sweep
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ReclaimCalls, ReclaimKind, ReclaimSeen
from zombiescope.host.live import LiveHost
from zombiescope.lab.hierarchy import MemoryHierarchy
from zombiescope.pipeline.scan import watch_reclaim_pass
from zombiescope.probes.readers.reclaim_rates import ReclaimWindow

pytestmark = pytest.mark.kernel
FEW, ZOMBIES, MOST = 300, 3000, 48_000
PASSES = 5


@pytest.fixture(scope="module")
def maker(hierarchy: MemoryHierarchy) -> Iterator[Maker]:
    with Maker(f"walk-{os.getpid()}-{secrets.token_hex(2)}") as made:
        made.many(ZOMBIES)
        yield made


def of_limit(seen: ReclaimSeen | Gap) -> ReclaimCalls:
    if isinstance(seen, Gap):
        not_here(seen.reason)
    assert isinstance(seen, ReclaimSeen)
    return next(kind for kind in seen.kinds if kind.kind is ReclaimKind.LIMIT)


def reclaim(maker: Maker) -> float:
    """Ask for it on the parent, in a child; the CPU time it took, which nobody else's work is part of."""

    def ask() -> float:
        name, text = (
            ("memory.reclaim", "1M") if (maker.top / "memory.reclaim").exists() else ("memory.force_empty", "0")
        )
        if not (maker.top / name).exists():
            return -1.0
        before = time.thread_time()
        with suppress(OSError), open(maker.top / name, "w") as file:  # what it could not free it says as an error
            file.write(text)
        return time.thread_time() - before

    took = float(answer_of_child(ask))
    if took < 0:
        not_here("this kernel has neither memory.reclaim nor memory.force_empty")
    return took


def test_a_walk_over_zombies_is_seen_and_timed(maker: Maker) -> None:
    window = ReclaimWindow(LiveHost())
    calm = of_limit(window.seen())
    took = reclaim(maker)
    seen = window.seen()
    limit = of_limit(seen)
    window.close()
    calls = limit.calls - calm.calls
    assert calls >= 1
    assert limit.fruitless > calm.fruitless
    # Others may reclaim meanwhile: ours is the least of it, by the clock of whoever asked.
    assert limit.seconds - calm.seconds >= 0.7 * took
    assert limit.longest_seconds >= 0.5 * took / calls
    assert isinstance(seen, ReclaimSeen)
    assert any(work.walking is Walking.YES for work in derive_works(seen, ZOMBIES, 10))


def test_more_zombies_cost_more_in_each_pass(maker: Maker) -> None:
    """Whatever the machine takes for one: ten times as many, and no page to be had from either."""
    with Maker(f"few-{os.getpid()}-{secrets.token_hex(2)}") as few:
        few.many(FEW)
        reclaim(few), reclaim(maker)
        pairs = [(reclaim(few), reclaim(maker)) for _ in range(PASSES)]
    assert min(many for _, many in pairs) > 2 * min(few for few, _ in pairs), pairs


@pytest.fixture(scope="module")
def judged(maker: Maker) -> tuple[int, ReclaimSeen, Finding]:
    """As many zombies as make a pass long enough to be called costly on this machine, and what was said of it."""
    count = ZOMBIES
    while True:
        window = ReclaimWindow(LiveHost())
        of_limit(window.seen())
        reclaim(maker)
        seen = window.seen()
        window.close()
        assert isinstance(seen, ReclaimSeen)
        finding = costly_reclaim_walk.judge(case(snapshot(count))._replace(reclaim=seen))
        if finding.verdict is Verdict.PRESENT or count >= MOST:
            return count, seen, finding
        maker.many(count, first=count)
        count *= 2


def test_a_walk_over_enough_zombies_is_judged(judged: tuple[int, ReclaimSeen, Finding]) -> None:
    count, seen, finding = judged
    assert finding.verdict is Verdict.PRESENT, (count, seen)
    assert f"{count:,} zombies" in finding.summary
    without = costly_reclaim_walk.judge(case(snapshot(0))._replace(reclaim=seen))
    assert without.verdict is Verdict.ABSENT, "the same calls, and nothing to walk over"


def test_this_kernel_is_told_to_pay_in_reclaim_and_not_in_statistics(
    maker: Maker, judged: tuple[int, ReclaimSeen, Finding]
) -> None:
    """By behaviour: with thousands of zombies below, one cgroup's statistics are read as fast as ever (5.9 and later)."""
    count, seen, _ = judged
    healthy = Sweep(0.001, 100, 100, "memory.stat", 0.0001)
    assert derive_payer(healthy, derive_works(seen, count, 10)) is Payer.RECLAIM
    with Maker(f"none-{os.getpid()}-{secrets.token_hex(2)}") as empty:
        alone, beside = (min(reading(each) for _ in range(50)) for each in (empty, maker))
    assert beside < 10 * alone, (beside, alone)


def reading(maker: Maker) -> float:
    """CPU time for one cgroup's statistics."""
    before = time.thread_time()
    (maker.top / "memory.stat").read_bytes()
    return time.thread_time() - before


def test_a_scan_that_watches_tells_what_a_pass_takes(maker: Maker) -> None:
    class Reclaiming(LiveHost):
        """Reclaim runs while it waits."""

        def wait(self, seconds: float) -> None:
            del seconds
            reclaim(maker)

    probe = ReclaimWindow(LiveHost())
    of_limit(probe.seen())
    probe.close()
    found = watch_reclaim_pass(Reclaiming(), 1.0)
    assert isinstance(found, ReclaimPass), found
    assert found.calls
    assert found.seconds > 0


def test_without_bpf_it_is_a_gap() -> None:
    def look() -> list[str]:
        refuse_bpf(1)
        window = ReclaimWindow(LiveHost())
        seen = window.seen()
        window.close()
        assert isinstance(seen, Gap)
        return list(seen)

    fact, reason, hint = answer_of_child(look)
    assert fact == "reclaim"
    assert "not permitted" in reason
    assert "CAP_BPF" in hint
