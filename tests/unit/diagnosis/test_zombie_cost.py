# SPDX-License-Identifier: Apache-2.0
"""`costly-sweep` and `costly-reclaim-walk`: which of the two this kernel makes pay for zombies, by behaviour."""

from __future__ import annotations

import pytest
from tests.build import case, snapshot
from tests.scenarios.facts import case as built
from tests.scenarios.facts import cores, stretch

from zombiescope.analysis.zombie_cost import Payer, Walking, derive_payer, derive_sweepers, derive_works
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.rules import costly_reclaim_walk, costly_sweep
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.cgroups import Sweep
from zombiescope.facts.cores import CoreMode
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ReclaimCalls, ReclaimGroup, ReclaimKind, ReclaimSeen, Sweeper, SweepersSeen

GAP = Gap("reclaim", "bpf refused")
FAST = Sweep(0.012, 240, 240, "/m/memory.stat", 0.0002)
SLOW = Sweep(130.0, 240, 31, "/m/kubepods/memory.numa_stat", 1.9)
"""As a kernel of the 5.4 era would show it with 68,000 zombies: a labelled case, not reproduced here."""
NO_CALLS = ReclaimCalls(ReclaimKind.DIRECT, 0, 0, 0, 0.0, 0.0, 0.0, None)


def reclaim(calls: int, pages: int, cpu: float, longest: float) -> ReclaimSeen:
    limit = ReclaimCalls(ReclaimKind.LIMIT, calls, calls if not pages else 0, pages, cpu, cpu, longest, 1_700_000_000.0)
    return ReclaimSeen(10.0, (NO_CALLS, limit))


WALK = reclaim(16, 0, 4.0, 0.4)
WORK = reclaim(500, 400_000, 0.2, 0.03)
QUIET = reclaim(0, 0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("sweep", "seen", "payer"),
    [
        (SLOW, WALK, Payer.BOTH),
        (SLOW, GAP, Payer.STATISTICS),
        (SLOW, QUIET, Payer.STATISTICS),
        (FAST, WALK, Payer.RECLAIM),
        (GAP, WALK, Payer.RECLAIM),
        (FAST, WORK, Payer.NEITHER),
        (FAST, QUIET, Payer.NEITHER),
        (FAST, GAP, Payer.UNKNOWN),
        (GAP, QUIET, Payer.UNKNOWN),
    ],
)
def test_who_pays(sweep: Sweep | Gap, seen: ReclaimSeen | Gap, payer: Payer) -> None:
    works = seen if isinstance(seen, Gap) else derive_works(seen, 19_800, 10)
    assert derive_payer(sweep, works) is payer


def test_a_slow_sweep_is_present_with_its_slowest_file_and_its_sweepers() -> None:
    kubelet = Sweeper("kubelet", 1, 0.05, 0.60)
    seen = SweepersSeen(1_700_000_010.0, 10.0, (kubelet, Sweeper("containerd", 1, 0.0, 0.0)))
    finding = costly_sweep.judge(case(snapshot(68_440, 240, sweep=SLOW))._replace(sweepers=seen))
    assert (finding.verdict, finding.severity) == (Verdict.PRESENT, Severity.CRITICAL)
    assert "memory.numa_stat (1.9 s)" in finding.summary
    values = {item.fact: item.value for item in finding.evidence}
    assert values["sweeper[kubelet].share"] == 0.065
    assert values["pays_for_zombies"] == "reading statistics"


def test_a_fast_sweep_is_absent_and_an_unread_one_unknown() -> None:
    assert costly_sweep.judge(case(snapshot(20_000, sweep=FAST))).verdict is Verdict.ABSENT
    many = Sweep(1.2, 24_000, 200, "/m/memory.stat", 0.0002)
    assert costly_sweep.judge(case(snapshot(20_000, sweep=many))).verdict is Verdict.ABSENT, (
        "many cgroups are not slow ones"
    )
    assert costly_sweep.judge(case(snapshot(20_000, sweep=GAP))).verdict is Verdict.UNKNOWN


def test_a_walk_is_long_on_a_core_for_hardly_a_page() -> None:
    finding = costly_reclaim_walk.judge(case(snapshot(19_800))._replace(reclaim=WALK))
    assert (finding.verdict, finding.severity) == (Verdict.PRESENT, Severity.WARNING)
    assert finding.summary == (
        "reclaim (limit) ran 16 times, 250 ms of CPU each (longest 400 ms), took 40% of a core and gave back 0 pages, over "
        "19,800 zombies: 12.6 us per zombie and call, for 0 pages"
    )
    long = reclaim(2, 0, 6.1, 3.2)
    assert costly_reclaim_walk.judge(case(snapshot(19_800))._replace(reclaim=long)).severity is Severity.CRITICAL


@pytest.mark.parametrize(("seen", "words"), [(WORK, "gave back 400,000 pages"), (QUIET, "no task had to reclaim")])
def test_honest_reclaim_and_none_are_not_seen_in_so_many_seconds(seen: ReclaimSeen, words: str) -> None:
    finding = costly_reclaim_walk.judge(case(snapshot(19_800))._replace(reclaim=seen))
    assert finding.verdict is Verdict.ABSENT
    assert finding.summary.startswith("not seen in 10 s")
    assert words in finding.summary


def test_a_walk_without_zombies_is_not_theirs_and_without_a_count_unknown() -> None:
    assert costly_reclaim_walk.judge(case(snapshot(5))._replace(reclaim=WALK)).verdict is Verdict.ABSENT
    uncounted = case(snapshot(census=Gap("memcg.counted", "no row")))._replace(reclaim=WALK)
    assert costly_reclaim_walk.judge(uncounted).verdict is Verdict.UNKNOWN
    assert costly_reclaim_walk.judge(case(snapshot(19_800))._replace(reclaim=GAP)).verdict is Verdict.UNKNOWN


def test_sweepers_are_added_up_by_name_and_a_number_used_again_counts_from_nought() -> None:
    before = {7: ("kubelet", 100, 200), 8: ("kubelet", 50, 50), 9: ("dockerd", 900, 900)}
    after = {7: ("kubelet", 150, 300), 8: ("kubelet", 10, 10), 9: ("crio", 30, 0)}
    assert derive_sweepers(before, after, 100) == (Sweeper("kubelet", 2, 0.6, 1.1), Sweeper("crio", 1, 0.3, 0.0))


POOR = reclaim(142, 52_096, 1.15, 0.244)
"""A task at its limit beside 10,000 zombies, as bench/bench_reclaim_walk.py saw it on a busy machine: 14 times slower."""
RICH = reclaim(2658, 1_352_704, 2.27, 0.087)
"""The same task without zombies."""
QUIET_MACHINE = {  # the same bench on a quiet one: calls, pages and seconds on a core of five seconds, by zombies below the limit
    0: (5878, 3_107_840, 0.13), 200: (5247, 2_803_933, 0.49), 1_000: (4617, 2_439_204, 1.68), 4_000: (2416, 1_276_868, 3.78),
}  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "zombies", "verdict"),
    [
        (POOR, 10_000, Verdict.PRESENT),
        (POOR, 3_000, Verdict.UNKNOWN),
        (RICH, 10_000, Verdict.UNKNOWN),
        (RICH, 40_000, Verdict.ABSENT),
        (WORK, 20_000, Verdict.ABSENT),
    ],
)
def test_who_reclaims_unknown_it_is_a_walk_only_where_pages_cannot_have_taken_the_time(
    seen: ReclaimSeen, zombies: int, verdict: Verdict
) -> None:
    finding = costly_reclaim_walk.judge(case(snapshot(zombies))._replace(reclaim=seen))
    assert finding.verdict is verdict
    if verdict is Verdict.UNKNOWN:
        assert "it may walk over them" in finding.summary
        assert "what would decide it" in finding.summary


def placed(zombies: int, speed: float = 1.0, *, with_apart: bool = False) -> ReclaimSeen:
    """As seen with whoever reclaims named: below /node lie the zombies, below /other none. `speed`: of the machine."""
    rows = [ReclaimGroup("/node/job", ("/node",), *QUIET_MACHINE[zombies])]
    if with_apart:
        rows.append(ReclaimGroup("/other/job", ("/other/job", "/other"), *QUIET_MACHINE[0]))
    rows = [row._replace(cpu_seconds=row.cpu_seconds / speed) for row in rows]
    sums = (sum(row.calls for row in rows), sum(row.pages for row in rows), sum(row.cpu_seconds for row in rows))
    limit = ReclaimCalls(ReclaimKind.LIMIT, sums[0], 0, sums[1], sums[2], sums[2], 0.01, 1_700_000_000.0)
    return ReclaimSeen(5.0 / speed, (NO_CALLS, limit), groups=tuple(rows))


@pytest.mark.parametrize("speed", [0.2, 1 / 3, 1.0, 3.0, 5.0])
@pytest.mark.parametrize("with_apart", [False, True])
def test_the_incident_is_a_walk_on_a_slow_machine_and_on_a_fast_one(speed: float, *, with_apart: bool) -> None:
    for zombies in (1_000, 4_000):
        seen = placed(zombies, speed, with_apart=with_apart)
        works = derive_works(seen, zombies, 30, lambda path, dead=zombies: dead if path == "/node" else 0)  # type: ignore[misc]
        assert works[0].walking is Walking.YES
        assert works[0].zombies == zombies
        assert [work.walking for work in works[1:]] == [Walking.NO] * with_apart


@pytest.mark.parametrize("speed", [1 / 3, 1.0, 3.0])
@pytest.mark.parametrize("zombies", [1_000, 4_000, 60_000])
def test_zombies_below_another_limit_are_not_what_a_job_walks_over(speed: float, zombies: int) -> None:
    works = derive_works(placed(4_000, speed), zombies, 30, lambda path: zombies if path == "/elsewhere" else 0)
    assert [work.walking for work in works] == [Walking.NO]


def test_a_few_hundred_below_the_limit_are_undecided_until_somebody_reclaims_without_any() -> None:
    def walking(*, with_apart: bool) -> Walking:
        seen = placed(200, with_apart=with_apart)
        return derive_works(seen, 200, 30, lambda path: 200 if path == "/node" else 0)[0].walking

    assert walking(with_apart=False) is Walking.MAYBE
    assert walking(with_apart=True) is Walking.YES


@pytest.mark.parametrize(("pages", "walking"), [(640, Walking.MAYBE), (6_400, Walking.MAYBE), (640_000, Walking.YES)])
def test_pages_that_are_as_dear_elsewhere_do_not_acquit_the_dead(pages: int, walking: Walking) -> None:
    rows = (
        ReclaimGroup("/node/job", ("/node",), 400, 12_800, 4.0),
        ReclaimGroup("/other/job", ("/other",), 200, pages, 2.0),
    )
    limit = ReclaimCalls(ReclaimKind.LIMIT, 600, 0, 12_800 + pages, 6.0, 6.0, 0.02, 1_700_000_000.0)
    seen = ReclaimSeen(5.0, (limit,), groups=rows)
    works = derive_works(seen, 20_000, 27, lambda path: 20_000 if path == "/node" else 0)
    assert [(work.walking, work.are_few) for work in works] == [(walking, False), (Walking.NO, True)]


@pytest.mark.parametrize(
    ("dead", "live_below", "walking"),
    [
        (4_000, None, Walking.MAYBE),
        (4_000, 60, Walking.YES),
        (4_000, 4_500, Walking.NO),
        (90, 3, Walking.NO),
        (5_000, None, Walking.YES),
    ],
)
def test_the_dead_are_weighed_against_the_live_below_the_same_limit(
    dead: int, live_below: int | None, walking: Walking
) -> None:
    seen = placed(4_000)
    (work,) = derive_works(seen, dead, 5_000, lambda _: dead, 100, lambda _: live_below)
    assert work.walking is walking


def test_a_full_machine_reclaims_from_all_that_live_and_a_limit_from_nobody_knows_how_many() -> None:
    poor = POOR.kinds[1]
    direct = ReclaimSeen(10.0, (poor._replace(kind=ReclaimKind.DIRECT),))
    assert [work.walking for work in derive_works(direct, 10_000, 12_000, least=100)] == [Walking.NO]
    assert [work.walking for work in derive_works(POOR, 10_000, 12_000, least=100)] == [Walking.MAYBE]
    assert [work.walking for work in derive_works(POOR, 10_000, 9_000, least=100)] == [Walking.YES]


def test_reclaim_that_somebody_asked_for_has_no_limit_to_go_by() -> None:
    seen = placed(4_000)
    seen = seen._replace(groups=(seen.groups[0]._replace(limits=()),))
    (work,) = derive_works(seen, 4_000, 30, lambda _: 0)
    assert (work.walking, work.is_placed) == (Walking.MAYBE, False)


def test_many_short_calls_that_hold_a_core_without_a_break_are_critical() -> None:
    walk = built(4_000, reclaim=reclaim(1_900, 250_000, 4.1, 0.021))
    assert costly_reclaim_walk.judge(walk).severity is Severity.WARNING, "41 % of a core, in pieces"
    held = walk._replace(cores=cores(stretch(4.4), system=4.4))
    assert costly_reclaim_walk.judge(held).severity is Severity.CRITICAL
    for other in (stretch(9.5), stretch(4.4, CoreMode.STEAL), stretch(0.4)):
        seen = walk._replace(cores=cores(other, system=4.4))
        assert costly_reclaim_walk.judge(seen).severity is Severity.WARNING, "it is not what held the core"
