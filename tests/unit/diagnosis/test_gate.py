# SPDX-License-Identifier: Apache-2.0
"""The gate's verdict: limits and their sources, waivers and their end, UNKNOWN that is never OK."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.analysis.scan import Population
from zombiescope.analysis.trend import slope_per_second
from zombiescope.diagnosis.gate import (
    GateReason,
    GateVerdict,
    GrowthSeen,
    Waiver,
    judge_gate,
    judge_growth,
    judge_population,
    unknown,
)
from zombiescope.diagnosis.limits import Limits, from_environment, parse_gate_file, with_values
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import UsageError
from zombiescope.facts.cgroups import CountSource
from zombiescope.facts.gap import Gap

TODAY = date(2026, 11, 15)
LIMITS = Limits()


def population(zombies: int, live: int) -> Population:
    return Population(zombies + live, live, CountSource.PROC_CGROUPS)


@pytest.mark.parametrize(
    ("zombies", "live", "verdict"),
    [
        (0, 240, "OK"),
        (999, 1000, "OK"),
        (1000, 1000, "WARNING"),
        (9_999, 9_999, "WARNING"),
        (68_440, 240, "CRITICAL"),
        (10_000, 90_000, "CRITICAL"),
        (199, 2, "OK"),
        (210, 3, "WARNING"),
        (5_100, 100, "CRITICAL"),
        (900, 200, "WARNING"),
    ],
)
def test_the_defaults(zombies: int, live: int, verdict: str) -> None:
    assert judge_gate(judge_population(population(zombies, live), LIMITS.thresholds), (), TODAY).verdict == verdict


def test_could_not_look_is_unknown_and_nothing_is_unknown() -> None:
    gate = judge_gate(judge_population(Gap("memcg", "no such file", "mount it"), LIMITS.thresholds), (), TODAY)
    assert gate.verdict is GateVerdict.UNKNOWN
    assert "no such file (mount it)" in gate.reasons[0].summary
    assert judge_gate([], (), TODAY).verdict is GateVerdict.UNKNOWN


@given(st.lists(st.sampled_from(list(GateVerdict)), min_size=1))
def test_the_worst_counts_and_unknown_beats_ok(verdicts: list[GateVerdict]) -> None:
    gate = judge_gate([GateReason("x", 1, 1, verdict, "") for verdict in verdicts], (), TODAY)
    expected = next(word for word in ("CRITICAL", "WARNING", "UNKNOWN", "OK") if word in verdicts)
    assert gate.verdict == expected
    assert gate.reasons[0].verdict == expected


def test_waivers_excuse_until_their_end_and_never_what_was_not_seen() -> None:
    reasons = [GateReason("unneeded-agent:snapd.service", 1, 1, GateVerdict.WARNING, "snapd")]
    waiver = Waiver("unneeded-agent:snapd*", "moving", TODAY)
    gate = judge_gate(reasons, (waiver,), TODAY)
    assert (gate.verdict, gate.reasons[0].is_waived) == (GateVerdict.OK, True)
    assert "waived until 2026-11-15: moving" in gate.reasons[0].summary
    late = judge_gate(reasons, (waiver,), date(2026, 11, 16))
    assert late.verdict is GateVerdict.WARNING
    assert "its waiver ended on 2026-11-15" in late.reasons[0].summary
    blind = judge_gate([unknown("zombies", Gap("x", "y"))], (Waiver("*", "z", TODAY),), TODAY)
    assert blind.verdict is GateVerdict.UNKNOWN


def test_a_short_rise_is_a_warning_and_says_why_as_doctor_does() -> None:
    short = judge_growth(GrowthSeen(10, 12, 42, 10_800), LIMITS.thresholds)
    assert (short.verdict, short.threshold) == (GateVerdict.WARNING, LIMITS.thresholds.growth_warning_per_hour)
    assert "too short to tell a wave from a leak, which takes 180 s (check --for 180s)" in short.summary
    assert judge_growth(GrowthSeen(180, 12, 542, 10_600), LIMITS.thresholds).verdict is GateVerdict.CRITICAL
    assert "too short" not in judge_growth(GrowthSeen(10, 12, 13, 360), LIMITS.thresholds).summary, (
        "it is noise, which is said"
    )


def test_growth_needs_more_than_noise() -> None:
    assert judge_growth(GrowthSeen(600, 10, 13, 5000), LIMITS.thresholds).verdict is GateVerdict.OK
    assert "3 more are too few" in judge_growth(GrowthSeen(600, 10, 13, 5000), LIMITS.thresholds).summary
    assert judge_growth(GrowthSeen(600, 10, 70, 360), LIMITS.thresholds).verdict is GateVerdict.WARNING
    assert judge_growth(GrowthSeen(600, 10, 500, 3000), LIMITS.thresholds).verdict is GateVerdict.CRITICAL
    assert judge_growth(GrowthSeen(600, 500, 500, -3000), LIMITS.thresholds).verdict is GateVerdict.OK


def test_a_slope() -> None:
    assert slope_per_second([(0, 5), (10, 25), (20, 45)]) == pytest.approx(2)
    assert slope_per_second([(1, 5)]) == slope_per_second([(1, 5), (1, 9)]) == 0


def test_the_order_of_sources() -> None:
    file = parse_gate_file(
        b'[check]\nzombies_warning = 500\nratio_warning = 3\n[[waiver]]\nwhat = "x"\nreason = "r"\nexpires = 2027-01-31\n',
        "f",
    )
    limits = with_values(LIMITS, file.limits, "f")
    limits = from_environment(limits, {"ZOMBIESCOPE_CHECK_RATIO_WARNING": "4", "PATH": "/bin"})
    limits = with_values(limits, {"zombies_critical": 700.0}, "flags")
    assert [limits.of(name) for name in ("zombies_warning", "ratio_warning", "zombies_critical")] == [500, 4, 700]
    assert file.waivers == (("x", "r", date(2027, 1, 31), ""),)


@pytest.mark.parametrize(
    "text",
    [
        b"\xff",
        b"[chekc]\n",
        b"[check]\nzombies_warnin = 3\n",
        b'[check]\nzombies_warning = "many"\n',
        b"[check]\nzombies_warning = -1\n",
        b"[check]\nzombies_warning = true\n",
        b"[check]\nratio_warning = nan\n",
        b'[[waiver]]\nwhat = "x"\nreason = "r"\n',
        b'[[waiver]]\nwhat = "x"\nexpires = 2027-01-01\n',
        b'[[waiver]]\nwhat = "x"\nreason = " "\nexpires = 2027-01-01\n',
        b'[[waiver]]\nwhat = "x"\nreason = "r"\nexpires = "soon"\n',
        b"waiver = 3\n",
    ],
)
def test_a_wrong_file_is_explained(text: bytes) -> None:
    with pytest.raises(UsageError):
        with_values(LIMITS, parse_gate_file(text, "gate.toml").limits, "gate.toml")


def test_what_is_expected_gives_its_reason() -> None:
    limits = Thresholds(expected_live=100)
    told = {zombies: judge_population(population(zombies, 300), limits)[-1] for zombies in (50, 150)}
    assert (told[50].what, told[50].verdict, told[150].verdict) == ("expected", "OK", "WARNING")
    assert told[50].summary == (
        "350 counted where 100 live ones are expected, which says nothing below 100 zombies: the host is busier than expected"
    )
    assert told[150].summary == "450 counted where 100 live ones are expected; 3 times as many are a warning"
    below = judge_population(population(10, 90), limits)[-1]
    assert (below.verdict, below.summary) == (
        "OK",
        "100 counted where 100 live ones are expected; 3 times as many are a warning",
    )
