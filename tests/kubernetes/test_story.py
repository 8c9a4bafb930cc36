# SPDX-License-Identifier: Apache-2.0
"""The story of a node, as it was seen on this machine (cgroup v1, cgroupfs) and, on demand, in an emulated one (v2, systemd)."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest
from tests.kubernetes.any_cluster import TOP, AnyCluster
from tests.kubernetes.asking import CONDITION
from tests.kubernetes.settings import NODE
from tests.kubernetes.story import CRASHY, DOOMED, EMULATED, NIGHTLY, Pace, Told, tell

AIM_SECONDS = 180
OTHERS = {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}
OUTCOMES = TOP / "build/kubernetes"
"""All of it, to be read by a person when a test fails."""
_ON_DEMAND = (
    pytest.mark.on_demand,
    pytest.mark.skipif(not os.environ.get("ZOMBIESCOPE_KUBERNETES_MACHINE"), reason="make test-kubernetes-machine"),
)
PLACES = {"cluster": Pace(), "machine_cluster": EMULATED}


@pytest.fixture(scope="module", params=["cluster", pytest.param("machine_cluster", marks=_ON_DEMAND)])
def told(request: pytest.FixtureRequest) -> Told:
    cluster: AnyCluster = request.getfixturevalue(request.param)
    seen = tell(cluster, PLACES[request.param])
    OUTCOMES.mkdir(parents=True, exist_ok=True)
    (OUTCOMES / f"told-{request.param}.json").write_text(json.dumps(seen._asdict(), indent=1))
    took = f"the story took {seen.seconds['removed']} s (aim {AIM_SECONDS} on a machine with nothing else to do)"
    print(f"\nkubernetes: node ready after {cluster.seconds_to_ready} s; {took}; {seen.seconds}")
    return seen


def finding(doctor: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in doctor["findings"] if each["id"] == name)


def test_the_condition_appears_and_all_others_stay(told: Told) -> None:
    assert CONDITION not in told.before
    ours = told.pressed[CONDITION]
    assert (ours["status"], ours["reason"]) == ("True", "ZombieMemcgAboveLimit")
    assert "most of them made by" in told.later[CONDITION]["message"]
    for other in OTHERS:
        was, now = told.before[other], told.pressed[other]
        assert (now["status"], now["lastTransitionTime"]) == (was["status"], was["lastTransitionTime"])


def test_a_heartbeat_is_no_transition(told: Told) -> None:
    assert told.later[CONDITION]["lastTransitionTime"] == told.pressed[CONDITION]["lastTransitionTime"]
    assert told.later[CONDITION]["lastHeartbeatTime"] > told.pressed[CONDITION]["lastHeartbeatTime"]


def test_it_clears_and_each_change_is_one_event(told: Told) -> None:
    assert told.relieved[CONDITION]["reason"] == "NoZombieMemcgPressure"
    in_order = sorted(told.events, key=lambda each: each["metadata"]["creationTimestamp"])
    said = [(each["reason"], each["type"], each["involvedObject"]["name"]) for each in in_order]
    both = [("ZombieMemcgPressure", "Warning", NODE), ("ZombieMemcgPressureResolved", "Normal", NODE)]
    assert said
    if "limit moved" in told.seconds:  # the agent that would have said so was replaced
        said.append(both[1])
    assert said == both * (len(said) // 2)  # more than once where others on this machine make zombies, too


def test_the_metrics_name_the_workloads(told: Told) -> None:
    assert told.makers[CRASHY] > told.makers[DOOMED] > 0
    assert told.makers[NIGHTLY] > 0


def test_the_metrics_name_a_workload_that_is_gone(told: Told) -> None:
    assert DOOMED in told.makers_after_deletion
    # Those of clusters before this one have no name any more; had ours lost theirs, they would be among them.
    unnamed = told.makers_after_deletion.get("pod:*", 0) - told.makers.get("pod:*", 0)
    assert unnamed < told.makers[DOOMED] / 2


def test_the_doctor_names_the_workload_that_loops(told: Told) -> None:
    loop = finding(told.doctor, "looping-container")
    assert loop["verdict"] == "present"
    named = re.search(r"Deployment shop/crashy \((\d+) containers\)", loop["summary"])
    assert named, loop["summary"]
    # In an emulated machine one of them may be up for more than ten seconds before it fails: then nobody can say yet that it loops.
    assert 2 * told.pace.containers - told.pace.is_emulated <= int(named[1]) <= 2 * told.pace.containers
    assert told.doctor["verdict"].startswith("`Deployment shop/crashy` is restarted over and over")
    assert "doomed" not in finding(told.doctor_after_deletion, "looping-container")["summary"]


def test_a_pod_that_healed_and_our_own_are_nobodys_loop(told: Told) -> None:
    for doctor in (told.doctor, told.doctor_after_deletion):
        said = json.dumps(finding(doctor, "looping-container"))
        assert "healed" not in said
        assert "DaemonSet" not in said


def test_the_agent_and_its_page_name_the_workload_that_loops(told: Told) -> None:
    assert 'id="app"' in told.page
    loop = finding(told.page_doctor, "looping-container")
    assert (loop["verdict"], "Deployment shop/crashy" in loop["summary"]) == ("present", True)


def test_the_log_says_nothing_of_trouble_with_the_cluster(told: Told) -> None:
    assert "the API server was not told" not in told.log


def test_nothing_of_ours_is_left_in_the_cluster(told: Told) -> None:
    assert CONDITION not in told.after
    assert set(told.after) == OTHERS
    assert told.left == []
