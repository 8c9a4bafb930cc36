# SPDX-License-Identifier: Apache-2.0
"""Accounts by maker, growth and its judgement, the re-onset clock: on readings as the ledger gives them."""

from __future__ import annotations

import random

import pytest

from zombiescope.analysis.growth import Track, derive_growth, derive_onset
from zombiescope.analysis.ledger import OTHER, Accounts, by_label
from zombiescope.analysis.recall import derive_recall, moment_at, onset_over
from zombiescope.analysis.trend import Point
from zombiescope.diagnosis.case import NO_HISTORY, Case
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.rules import zombie_growth
from zombiescope.diagnosis.thresholds import Severity, Thresholds
from zombiescope.facts.history import Sample
from zombiescope.facts.lifecycle import Counts, Flow, Histogram

POD = b"/kubepods.slice/kubepods-pod12345678_1234_1234_1234_123456789012.slice"


def test_zombies_are_the_backlog_plus_deaths_less_releases() -> None:
    accounts = Accounts()
    accounts.add([Flow(b"/system.slice/a.service", Counts(5, 5, 2))])
    before = dict(accounts.counts)
    accounts.add([Flow(b"/system.slice/a.service", Counts(1, 1, 0))])
    accounts.open_with({"unit:a.service": 10, "unit:b.service": 4}, before)
    accounts.add([Flow(b"/system.slice/b.service", Counts(0, 0, 3))])
    assert accounts.zombies() == {"unit:a.service": 11, "unit:b.service": 1}
    assert [account.maker for account in accounts.list()] == ["unit:a.service", "unit:b.service"]


def test_a_flow_of_many_pods_is_of_no_single_one() -> None:
    accounts = Accounts()
    accounts.add(
        [Flow(POD, Counts(9, 9, 9)), Flow(POD + b"/crio-" + b"a1" * 32 + b".scope", Counts(2, 2, 2))], Counts(1, 1, 1)
    )
    assert accounts.counts == {
        "pod:*": Counts(9, 9, 9),
        "pod:12345678-1234-1234-1234-123456789012": Counts(2, 2, 2),
        OTHER: Counts(1, 1, 1),
    }


def test_accounts_and_labels_are_bounded_and_lose_nothing() -> None:
    accounts = Accounts()
    accounts.add([Flow(b"/top/" + bytes([97 + i % 26, 97 + i // 26 % 26, 120]), Counts(1, 1, 0)) for i in range(676)])
    assert len(accounts.counts) <= 513
    assert sum(accounts.zombies().values()) == 676
    labels = by_label(accounts.zombies())
    assert len(labels) == 11
    assert sum(labels.values()) == 676
    assert by_label({"pod:1-2": 3, "pod:3-4": 4, "session:1000": 1}) == {"pod:*": 7, "session:*": 1, OTHER: 0}


def verdict_of(total: list[Point], makers: dict[str, list[Point]]) -> tuple[Verdict, Severity, str]:
    growth = derive_growth(total, {maker: Track(points) for maker, points in makers.items()})
    finding = zombie_growth.judge(Case((), Thresholds(), growth or NO_HISTORY))
    return finding.verdict, finding.severity, finding.summary


def test_six_a_minute_is_found_within_five_minutes_and_named() -> None:
    chance = random.Random(1)
    leak = [(10.0 * n, float(n)) for n in range(30)]
    churn = [(10.0 * n, float(chance.randrange(60))) for n in range(30)]
    total = [(at, leaked + moving) for (at, leaked), (_, moving) in zip(leak, churn, strict=True)]
    verdict, severity, summary = verdict_of(total, {"unit:bad.service": leak, "unit:busy.service": churn})
    assert (verdict, severity) == (Verdict.PRESENT, Severity.WARNING)
    assert "unit:bad.service" in summary


@pytest.mark.parametrize("seed", range(20))
def test_an_hour_of_churn_without_a_leak_raises_nothing(seed: int) -> None:
    """Sixty minutes on an accelerated clock, judged every half minute over ten-minute windows. The load rises and falls, and with
    it the number of deaths on their way: up to 65 ms of those of a second."""
    chance, accounts, outstanding = random.Random(seed), Accounts(), 0
    series: list[Point] = []
    for n in range(360):
        per_second = 500 * (n // 40 % 4) + chance.randrange(300)
        deaths = per_second * 10
        on_their_way = round(per_second * chance.uniform(0.008, 0.065))
        accounts.add([Flow(b"/system.slice/busy.service", Counts(deaths, deaths, deaths + outstanding - on_their_way))])
        outstanding = on_their_way
        series.append((10.0 * n, float(sum(accounts.settled().values()))))
    assert sum(accounts.zombies().values()) == outstanding
    for end in range(15, 361, 3):
        window = series[max(end - 60, 0) : end]
        assert verdict_of(window, {"unit:busy.service": window})[0] is not Verdict.PRESENT, end


def test_a_batch_that_left_some_once_is_no_leak() -> None:
    step = [(10.0 * n, 0.0 if n < 10 else 40.0) for n in range(60)]
    assert verdict_of(step, {"unit:batch.service": step})[0] is Verdict.ABSENT


def test_without_makers_the_total_is_judged_and_too_short_is_unknown() -> None:
    leak = [(10.0 * n, 20.0 * n) for n in range(60)]
    verdict, severity, summary = verdict_of(leak, {})
    assert (verdict, severity) == (Verdict.PRESENT, Severity.CRITICAL)
    assert "not known" in summary
    assert verdict_of(leak[:6], {})[0] is Verdict.UNKNOWN
    assert verdict_of([], {})[0] is Verdict.UNKNOWN


def test_the_clock_of_reonset_over_reboots() -> None:
    day = 86400.0
    boots = [(start * 10 * day, [(start * 10 * day + n * day / 4, n * 360.0) for n in range(36)]) for start in range(3)]
    onset = derive_onset(boots, 10_000)
    assert onset is not None
    assert [round(seconds / day, 2) for seconds in onset.seconds] == [6.94, 6.94, 6.94]
    assert derive_onset(boots, 10**6) is None


def test_a_recall_knows_pauses_makers_that_come_and_any_moment() -> None:
    samples = [
        Sample(
            n,
            1000.0 + 10 * n + (5000 if n > 30 else 0),
            "b",
            {"zombies": n, **({"maker.unit:a.service": n} if n > 5 else {})},
        )
        for n in range(1, 61)
    ]
    recall = derive_recall(samples, [("warning", 1000.0)])
    assert recall is not None
    assert [(pause.since, pause.until) for pause in recall.pauses] == [(1300.0, 6310.0)]
    assert recall.growth is not None
    assert recall.growth.makers[0].maker == "unit:a.service"
    assert recall.growth.forecasts[0].what == "warning"
    found = moment_at(samples, 1055.0)
    assert found is not None
    assert found.number == 5
    assert moment_at(samples, 5.0) is None
    assert derive_recall([], []) is None


def test_a_leak_that_began_in_the_last_hour_of_a_day_is_told_since_then() -> None:
    samples = [
        Sample(
            n,
            300.0 * n,
            "b",
            {
                "zombies": float(max(0, 5 * (n - 270))),
                "ids": 100.0 + 2 * n,
                "maker.unit:a.service": max(0, 5 * (n - 270)),
            },
        )
        for n in range(288)
    ]
    recall = derive_recall(samples, [("warning", 1000.0)])
    assert recall is not None
    assert recall.growth is not None
    assert recall.growth.total is not None
    assert recall.growth.total.is_since_seen
    assert abs(recall.growth.total.since - 300 * 270) <= 900
    assert recall.growth.total.slope.per_second * 3600 == pytest.approx(60, rel=0.05)
    assert recall.growth.makers[0].maker == "unit:a.service"
    assert recall.growth.forecasts[0].soonest_seconds == pytest.approx((1000 - 80) * 60, rel=0.1)
    assert recall.growth.ids is not None
    assert recall.growth.ids.soonest_seconds == pytest.approx((65_535 - 674) * 150, rel=0.01)


def test_the_clock_of_reonset_counts_from_the_boot_and_leaves_out_boots_seen_too_late() -> None:
    day = 86400.0
    late = [Sample(n, 600.0 * n, "late", {"zombies": 20_000.0, "uptime": 9 * day}) for n in range(5)]
    seen = [
        Sample(n, 10 * day + 3600.0 * n, "seen", {"zombies": 100.0 * n, "uptime": 3600.0 * n + 7200})
        for n in range(5, 120)
    ]
    onset = onset_over([*late, *seen], 10_000)
    assert onset is not None
    assert [round(seconds) for seconds in onset.seconds] == [100 * 3600 + 7200]


def test_a_histogram_of_powers_of_two() -> None:
    assert Histogram((0, 0, 0, 4, 1)).quantile_seconds(0.5) == 8e-6
    assert Histogram().quantile_seconds(0.5) is None


def test_most_is_who_made_most_and_not_who_grows_most_evenly() -> None:
    def steps(height: float, *, jitter: float = 0.0) -> Track:
        points = [(10.0 * n, height * n / 60 + (jitter if n % 7 else 0.0)) for n in range(60)]
        return Track(points)

    makers = {"unit:even.service": steps(21), "unit:most.service": steps(159, jitter=9.0)}
    total = [(at, one + two) for (at, one), (_, two) in zip(*(track.points for track in makers.values()), strict=True)]
    growth = derive_growth(total, makers)
    assert growth is not None
    assert [trend.maker for trend in growth.makers] == ["unit:most.service", "unit:even.service"]
