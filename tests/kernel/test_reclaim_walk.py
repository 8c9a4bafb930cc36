# SPDX-License-Identifier: Apache-2.0
"""Reclaim over thousands of real zombies that it cannot free: timed by our window, against the clock of whoever asked for it."""

from __future__ import annotations

import os
import resource
import secrets
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.build import case, snapshot
from tests.kernel.confined import answer_of_child, refuse_bpf
from tests.kernel.conftest import not_here
from tests.kernel.zombie_maker import Maker

from zombiescope.analysis.reclaim_pass import ReclaimPass
from zombiescope.analysis.zombie_cost import Payer, Walking, derive_payer, derive_works
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.rules.costly_reclaim_walk import judge_costly_reclaim_walk
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ReclaimCalls, ReclaimKind, ReclaimSeen
from zombiescope.host.live import LiveHost
from zombiescope.lab.hierarchy import MemoryHierarchy
from zombiescope.pipeline.reclaim_pass import watch_reclaim_pass
from zombiescope.pipeline.scan import observe
from zombiescope.probes.readers.reclaim_passes import ReclaimWindow

pytestmark = pytest.mark.kernel
ZOMBIES = 3000


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
    """Ask for it on the parent, in a child; the system time it took."""

    def ask() -> float:
        name, text = (
            ("memory.reclaim", "1M") if (maker.top / "memory.reclaim").exists() else ("memory.force_empty", "0")
        )
        if not (maker.top / name).exists():
            return -1.0
        before = resource.getrusage(resource.RUSAGE_SELF).ru_stime
        with suppress(OSError), open(maker.top / name, "w") as file:  # what it could not free it says as an error
            file.write(text)
        return resource.getrusage(resource.RUSAGE_SELF).ru_stime - before

    return float(answer_of_child(ask))


def test_a_walk_over_zombies_is_seen_timed_and_judged(maker: Maker) -> None:
    window = ReclaimWindow(LiveHost())
    calm = of_limit(window.seen())
    took = reclaim(maker)
    if took < 0:
        not_here("this kernel has neither memory.reclaim nor memory.force_empty")
    seen = window.seen()
    window.close()
    limit = of_limit(seen)
    calls = limit.calls - calm.calls
    assert calls >= 1
    assert limit.fruitless > calm.fruitless
    # Others may reclaim meanwhile: ours is the least of it.
    assert limit.cpu_seconds - calm.cpu_seconds >= 0.7 * took
    assert limit.longest_seconds >= 0.5 * took / calls
    assert took >= ZOMBIES * 5e-6, "a walk over the dead takes microseconds each"
    assert isinstance(seen, ReclaimSeen)
    assert any(work.walking is Walking.YES for work in derive_works(seen, ZOMBIES, 10))
    finding = judge_costly_reclaim_walk(case(snapshot(ZOMBIES))._replace(reclaim=seen))
    assert finding.verdict is Verdict.PRESENT
    assert "3,000 zombies" in finding.summary


def test_this_kernel_is_told_to_pay_in_reclaim_and_not_in_statistics(maker: Maker) -> None:
    """By behaviour: with thousands of zombies below, one cgroup's statistics are read as fast as ever (5.9 and later)."""
    host = LiveHost()
    window = ReclaimWindow(host)
    of_limit(window.seen())
    if reclaim(maker) < 0:
        not_here("this kernel has neither memory.reclaim nor memory.force_empty")
    seen = window.seen()
    window.close()
    assert isinstance(seen, ReclaimSeen)
    works = derive_works(seen, ZOMBIES, 10)
    assert derive_payer(observe(host, with_bytes=False).snapshot.sweep, works) is Payer.RECLAIM


def test_a_scan_that_watches_tells_what_a_pass_takes(maker: Maker) -> None:
    class Reclaiming(LiveHost):
        """Reclaim runs while it waits."""

        def wait(self, seconds: float) -> None:
            del seconds
            if reclaim(maker) < 0:
                not_here("this kernel has neither memory.reclaim nor memory.force_empty")

    probe = ReclaimWindow(LiveHost())
    of_limit(probe.seen())
    probe.close()
    found = watch_reclaim_pass(Reclaiming(), 1.0)
    assert isinstance(found, ReclaimPass), found
    assert found.calls
    assert 0 < found.seconds < 60


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
