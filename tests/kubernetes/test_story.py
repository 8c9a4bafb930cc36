# SPDX-License-Identifier: Apache-2.0
"""The story of a node: a Deployment crash-loops, a pod healed, another is deleted, a CronJob works, and our DaemonSet watches.

Told once, in order, against a real cluster; each test looks at what was seen then. Totals of the kernel belong to everybody on the
machine, so limits are set from what was there before, and makers are told by name.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, NamedTuple

import pytest
from tests.kubernetes import asking
from tests.kubernetes.asking import CONDITION, OURS
from tests.kubernetes.cluster import TOP, Cluster, ClusterError
from tests.kubernetes.conftest import PROGRAM
from tests.kubernetes.settings import NODE
from tests.kubernetes.workloads import SHOP, crashing_deployment, cron_job, doomed_deployment, healed_pod, namespace

CRASHY, DOOMED = "workload:shop/Deployment/crashy", "workload:shop/Deployment/doomed"
NIGHTLY = "workload:shop/CronJob/nightly"
OTHERS = {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}
MARGIN = 70
TIMES = 3
WELL_SECONDS = 15.0
RELIEF_SECONDS = 40.0
OUTCOME = TOP / "build/kubernetes/told.json"
"""All of it, to be read by a person when a test fails."""
SETTINGS = """[agent]
interval_seconds = 2
kubernetes_hold_seconds = 4
kubernetes_heartbeat_seconds = 10
[thresholds]
zombies_warning = {limit}
ratio_least_zombies = 1000000
"""
"""The ratio would judge what was there before us."""


class Told(NamedTuple):
    """What was seen, in the order of the story."""

    before: dict[str, dict[str, str]]
    pressed: dict[str, dict[str, str]]
    later: dict[str, dict[str, str]]
    makers: dict[str, float]
    doctor: dict[str, Any]
    page: str
    page_doctor: dict[str, Any]
    """What the agent judges, as its page shows it."""
    makers_after_deletion: dict[str, float]
    doctor_after_deletion: dict[str, Any]
    relieved: dict[str, dict[str, str]]
    events: list[dict[str, Any]]
    log: str
    after: dict[str, dict[str, str]]
    left: list[str]
    seconds: dict[str, float]


class Telling:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._began = time.monotonic()
        self.seconds: dict[str, float] = {}
        self.limit = 0

    def mark(self, what: str) -> None:
        self.seconds[what] = round(time.monotonic() - self._began, 1)
        print(f"kubernetes: {what} after {self.seconds[what]} s", file=sys.__stderr__, flush=True)

    def settle_in(self) -> None:
        scanned = json.loads(self.cluster.run(str(PROGRAM), "scan", "--no-bytes", "--json").stdout)
        self.limit = scanned["memcg"]["zombies"] + MARGIN
        settings = SETTINGS.format(limit=self.limit)
        self.cluster.apply(*asking.manifests(self.cluster, "with-node-condition", settings))
        work = crashing_deployment(), healed_pod(), doomed_deployment(), cron_job()
        self.cluster.apply(namespace(), *work)
        self.cluster.wait("our agent is ready", lambda: asking.is_ready(asking.agent_pod(self.cluster)))
        self.mark("agent ready")

    def status(self) -> str:
        return asking.conditions(self.cluster).get(CONDITION, {}).get("status", "")

    def wait_for_status(self, wanted: str, seconds: float = 120.0) -> dict[str, dict[str, str]]:
        self.cluster.wait(f"the condition is {wanted}", lambda: self.status() == wanted, seconds)
        self.mark(f"condition {wanted}")
        return asking.conditions(self.cluster)

    def wait_for_heartbeat(self, before: dict[str, str]) -> dict[str, dict[str, str]]:
        def beats() -> bool:
            return asking.conditions(self.cluster)[CONDITION]["lastHeartbeatTime"] > before["lastHeartbeatTime"]

        self.cluster.wait("a heartbeat", beats)
        return asking.conditions(self.cluster)

    def wait_for_makers(self, *wanted: str) -> dict[str, float]:
        def named() -> dict[str, float]:
            found = asking.zombies_by_maker(self.cluster)
            return found if all(found.get(each) for each in wanted) else {}

        found: dict[str, float] = self.cluster.wait(f"the metrics name {', '.join(wanted)}", named)
        return found

    def restarts(self) -> dict[str, int]:
        """The least of each workload's containers."""
        found: dict[str, int] = {}
        for pod in self.cluster.get("pods", "-n", SHOP)["items"]:
            name = pod["metadata"].get("labels", {}).get("app", pod["metadata"]["name"])
            counts = [each["restartCount"] for each in pod["status"].get("containerStatuses", [])]
            found[name] = min([found.get(name, 10**6), *counts]) if counts else 0
        return found

    def wait_until_it_loops(self) -> None:
        """Everybody was restarted three times: one of them is well since then, and has been for a while."""

        def looped() -> bool:
            counts = self.restarts()
            return all(counts.get(name, 0) >= TIMES for name in ("crashy", "doomed", "healed"))

        self.cluster.wait("all were restarted three times", looped)
        well = time.monotonic() + WELL_SECONDS
        self.cluster.wait("it has been well for a while", lambda: time.monotonic() > well)
        self.mark("looping")

    def doctor(self) -> dict[str, Any]:
        said: dict[str, Any] = asking.exec_json(self.cluster, "doctor", "--root", "/host", "--json", "--seconds", "2")
        return said

    def delete_doomed(self) -> None:
        self.cluster.kubectl("delete", "deployment", "doomed", "-n", SHOP, "--cascade=foreground")
        self.mark("one Deployment deleted")

    def relieve(self) -> dict[str, dict[str, str]]:
        self.cluster.kubectl("scale", "deployment", "crashy", "-n", SHOP, "--replicas=0")
        self.cluster.kubectl("delete", "cronjob", "nightly", "-n", SHOP)
        try:
            return self.wait_for_status("False", RELIEF_SECONDS)
        except ClusterError:
            self.move_the_limit()
            return self.wait_for_status("False")

    def move_the_limit(self) -> None:
        """Where too many survive their pods (pages of the block device), or others make zombies: a new limit, a new agent."""
        settings = SETTINGS.format(limit=10**6)
        self.cluster.apply(*asking.manifests(self.cluster, "with-node-condition", settings))
        self.cluster.kubectl("delete", "pods", "--all", "-n", OURS)
        self.cluster.wait("our new agent is ready", lambda: asking.is_ready(asking.agent_pod(self.cluster)))
        self.mark("limit moved")

    def remove(self) -> list[str]:
        """As the guide says: the DaemonSet first, so that its agents can take their condition away; then the rest."""
        self.cluster.kubectl("delete", "daemonset", OURS, "-n", OURS, "--cascade=foreground")
        self.after = asking.conditions(self.cluster)
        overlay = TOP / "deploy/kubernetes/overlays/with-node-condition"
        self.cluster.kubectl("delete", "-k", str(overlay), "--ignore-not-found")
        left = asking.left_of_ours(self.cluster)
        self.mark("removed")
        return left


@pytest.fixture(scope="session")
def told(cluster: Cluster) -> Told:
    telling = Telling(cluster)
    before = asking.conditions(cluster)
    telling.settle_in()
    pressed = telling.wait_for_status("True")
    later = telling.wait_for_heartbeat(pressed[CONDITION])
    makers = telling.wait_for_makers(CRASHY, DOOMED, NIGHTLY)
    telling.mark("makers named")
    telling.wait_until_it_loops()
    doctor = telling.doctor()
    page, page_doctor = asking.asked(cluster, "/"), json.loads(asking.asked(cluster, "/api/v1/doctor"))
    telling.delete_doomed()
    makers_after, doctor_after = asking.zombies_by_maker(cluster), telling.doctor()
    relieved = telling.relieve()
    events = asking.events(cluster)
    log = cluster.kubectl("logs", "daemonset/zombiescope", "-n", OURS)
    left = telling.remove()
    seen = Told(
        *(before, pressed, later, makers, doctor, page, page_doctor, makers_after, doctor_after),
        *(relieved, events, log, telling.after, left, telling.seconds),
    )
    OUTCOME.parent.mkdir(parents=True, exist_ok=True)
    OUTCOME.write_text(json.dumps(seen._asdict(), indent=1))
    print(f"\nkubernetes: node ready after {cluster.seconds_to_ready} s; {telling.seconds}")
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
    assert "Deployment shop/crashy (16 containers)" in loop["summary"]
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
