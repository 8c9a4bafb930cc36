# SPDX-License-Identifier: Apache-2.0
"""The arithmetic against a simulation of systemd's limiter, and the units of the case."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.trees import ECS_DEB, ECS_RPM

from zombiescope.analysis.unit_starts import RestartPolicy, derive_restart_policy
from zombiescope.facts.units import Setting, UnitFile, parse_time_span, shown_span
from zombiescope.probes.unit_layout import parse_settings

FIXED = "\n[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=5\n"


def policy(text: str, manager: str = "") -> RestartPolicy:
    settings, _ = parse_settings(text.encode(), "a.service")
    unit = UnitFile("a.service", "/a.service", "enabled", tuple(settings))
    return derive_restart_policy(unit, tuple(parse_settings(manager.encode(), "system.conf")[0]))


@pytest.mark.parametrize("text", [ECS_DEB, ECS_RPM])
def test_the_ecs_agent_loops_for_ever_until_its_limit_is_mended(text: str) -> None:
    found = policy(text)
    assert (found.can_trip, found.can_loop, found.restarts_per_day) == (False, True, 8640)
    assert "5 delays of 10 s (50 s) do not fit into the start limit's 10 s" in found.why
    mended = policy(text + FIXED)
    assert (mended.can_trip, mended.can_loop, mended.restarts_per_day) == (True, False, None)


@pytest.mark.parametrize(
    ("text", "can_loop"),
    [
        ("[Service]\n", False),
        ("[Service]\nRestart=always\n", False),
        ("[Service]\nRestart=always\nRestartSec=2s\n", True),
        ("[Service]\nRestart=always\nRestartSec=1999ms\n", False),
        ("[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=always\n", True),
        ("[Unit]\nStartLimitBurst=0\n[Service]\nRestart=on-failure\n", True),
        ("[Service]\nRestart=on-failure\nRestartSec=30\nRestartPreventExitStatus=1 5\n", False),
        ("[Service]\nRestart=on-failure\nRestartSec=30\nSuccessExitStatus=1\n", False),
        ("[Service]\nRestart=always\nRestartSec=30\nSuccessExitStatus=1\n", True),
        ("[Service]\nRestart=on-success\nRestartSec=30\n", False),
        ("[Service]\nRestart=always\nRestartSec=infinity\n", False),
        ("[Service]\nRestart=always\nRestartSec=soon\n", None),
        ("[Service]\nRestart=sometimes\nRestartSec=30\n", None),
        ("[Service]\nStartLimitInterval=5min\nStartLimitBurst=4\nRestart=always\nRestartSec=10\n", False),
        ("[Service]\nStartLimitIntervalSec=5min\nRestart=always\nRestartSec=10\n", True),
        ("[Service]\nRestart=always\nRestartSec=1s\nRestartSteps=3\nRestartMaxDelaySec=1h\n", True),
    ],
)
def test_policies(text: str, can_loop: bool | None) -> None:
    assert policy(text).can_loop is can_loop


def test_the_managers_defaults_and_their_old_names() -> None:
    manager = "[Manager]\nDefaultStartLimitInterval=1min\nDefaultRestartSec=5s\n"
    assert policy("[Service]\nRestart=always\n", manager).can_loop is False
    assert policy("[Service]\nRestart=always\n", "[Manager]\nDefaultRestartSec=5s\n").can_loop is True


def simulated(delays: list[float], interval: float, burst: int) -> bool:
    """systemd's ratelimit: does a start get refused?"""
    begin, count, now = -math.inf, 0, 0.0
    for delay in [0.0, *delays]:
        now += delay
        if now - begin > interval:
            begin, count = now, 0
        if count >= burst:
            return True
        count += 1
    return False


@given(
    st.integers(1, 60), st.integers(1, 600), st.integers(1, 12), st.integers(0, 6), st.integers(61, 900)
)  # fmt: skip
def test_the_formula_is_the_simulation(delay: int, interval: int, burst: int, steps: int, longest: int) -> None:
    found = RestartPolicy("always", float(delay), interval + 0.5, burst, steps, float(longest))
    delays = [found.delay(number) for number in range(200)]
    assert found.can_trip is simulated(delays, interval + 0.5, burst)
    assert delays == sorted(delays)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10", 10), ("1min 30s", 90), ("1h30m", 5400), ("500ms", 0.5), ("0.5s", 0.5), ("2 weeks", 1209600), ("infinity", math.inf),
     ("", None), ("soon", None), ("10 parsecs", None), ("-5", None)],
)  # fmt: skip
def test_time_spans(text: str, seconds: float | None) -> None:
    assert parse_time_span(text) == seconds


def test_spans_for_a_person() -> None:
    assert [shown_span(value) for value in (0.1, 10, 90, 7200, math.inf)] == [
        "100 ms",
        "10 s",
        "1.5 min",
        "2 h",
        "for ever",
    ]


def test_evidence_names_the_lines_that_decide() -> None:
    found = policy(ECS_DEB)
    assert Setting("Service", "RestartSec", "10s", "a.service") in found.origins
