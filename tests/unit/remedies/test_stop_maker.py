# SPDX-License-Identifier: Apache-2.0
"""What a person is told to stop is something that can be stopped; a pattern never is."""

from __future__ import annotations

import re

import pytest
from tests.unit.remedies.situations import UNIT, audit, autopsy, body, diagnosis, levers, pin, unit

from zombiescope.diagnosis.audit import Audit
from zombiescope.diagnosis.workload_audit import Need
from zombiescope.facts.zombies import PinKind
from zombiescope.remedies.choice import Activity
from zombiescope.remedies.plan import AskHuman
from zombiescope.remedies.planner import propose

UID = "0c1d2e3f-0000-4000-8000-000000000001"


def told(maker: str, timer: str | None = None) -> tuple[str, tuple[str, ...]]:
    activity = Activity(growing=((maker, timer),))
    held = autopsy(body(pin(PinKind.TMPFS, b"/dev/shm/x")))
    plan = propose(diagnosis("zombie-population"), held, audit(loops=()), levers(), activity=activity)
    step = plan.steps[0]
    assert isinstance(step.change, AskHuman)
    assert plan.makers[0] == maker
    return step.title, step.change.commands


@pytest.mark.parametrize(
    ("maker", "title", "command"),
    [
        ("unit:leaky.service", "stop leaky.service", "systemctl stop leaky.service"),
        (f"pod:{UID}", f"stop the pod with the uid {UID}", "crictl pods -o json   # which one has this uid"),
        ("session:1000", "stop what logs in as user 1000", "loginctl user-status 1000"),
    ],
)
def test_one_thing_is_named_and_stopped(maker: str, title: str, command: str) -> None:
    found = told(maker)
    assert found[0] == f"{title}, before anything of it is freed"
    assert found[1][0] == command


@pytest.mark.parametrize(
    "maker",
    [
        "pod:*", "session:*", "container:docker", "container:containerd", "container:cri-o", "path:/batch/job-*",
        "unit:job@.service", "unit:user@.service", "unit:job-*.service", "unit:run-u*.service", "unit:system.slice",
        "unit:init.scope", "other",
    ],
)  # fmt: skip
def test_where_it_is_many_a_person_is_told_what_to_find_out(maker: str) -> None:
    title, commands = told(maker)
    assert title.startswith("find out ")
    assert commands
    for command in commands:
        assert not re.match(r"systemctl stop|loginctl terminate|kubectl (delete|scale)|docker (stop|rm)", command)
        bare = re.sub(r"'[^']*'", "", command)
        assert "*" not in bare, "a shell would expand it"


def test_a_timer_is_stopped_whatever_it_starts() -> None:
    title, commands = told("unit:job@.service", "job.timer")
    assert title.startswith("stop job@.service, which job.timer starts")
    assert commands == ("systemctl stop job.timer   # then: job@.service ends by itself",)
    assert told("unit:job.service", "job.timer")[1] == (
        "systemctl stop job.timer   # then: job.service ends by itself, or systemctl stop job.service",
    )


@pytest.mark.parametrize("judged", [None, audit(loops=())])
def test_a_unit_that_loops_and_whose_files_nobody_could_judge_is_still_the_first_step(judged: Audit | None) -> None:
    """As in a recording, which keeps no unit files."""
    activity = Activity(growing=(("unit:other.service", None),), looping=("unit:leaky.service",))
    held = autopsy(body(pin(PinKind.TMPFS, b"/dev/shm/x")))
    plan = propose(diagnosis("zombie-population", "crash-looping-unit"), held, judged, levers(), activity=activity)
    why = {step.name: step.why for step in plan.steps[:2]}
    assert set(why) == {"stop-maker:unit:leaky.service", "stop-maker:unit:other.service"}
    assert why["stop-maker:unit:leaky.service"].startswith("leaky.service is restarted over and over")


def test_a_unit_that_loops_and_is_judged_has_its_own_steps_alone() -> None:
    activity = Activity(looping=(f"unit:{UNIT}",))
    held = autopsy(body(pin(PinKind.TMPFS, b"/dev/shm/x")))
    judged = audit(unit(need=Need.UNNEEDED))
    plan = propose(diagnosis("zombie-population"), held, judged, levers(), activity=activity)
    assert [step.name for step in plan.steps][:2] == [f"stop:{UNIT}", f"mask:{UNIT}"]
