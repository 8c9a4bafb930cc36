# SPDX-License-Identifier: Apache-2.0
"""The story of a node: a Deployment crash-loops, a pod healed, another is deleted, a CronJob works, and our DaemonSet watches.

Told once, in order, against a real cluster; what was seen then is looked at by tests. Totals of the kernel belong to all on the
machine, so limits are set from what was there before, and makers are told by name.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, NamedTuple

from tests.kubernetes import asking
from tests.kubernetes.any_cluster import TOP, AnyCluster
from tests.kubernetes.asking import CONDITION, OURS
from tests.kubernetes.workloads import SHOP, crashing_deployment, cron_job, healed_pod, namespace

CRASHY, DOOMED = "workload:shop/Deployment/crashy", "workload:shop/Deployment/doomed"
NIGHTLY = "workload:shop/CronJob/nightly"
TIMES = 3
WELL_SECONDS = 15.0
RELIEF_LOOKS = 6
SETTINGS = """[agent]
interval_seconds = {interval}
kubernetes_hold_seconds = {hold}
kubernetes_heartbeat_seconds = {heartbeat}
[thresholds]
zombies_warning = {limit}
ratio_least_zombies = 1000000
"""
"""The ratio would judge what was there before us."""


class Pace(NamedTuple):
    """How much is told, and how fast: an emulated machine bears less of it."""

    margin: int = 70
    """How many zombies more are pressure."""
    containers: int = 8
    """Of each pod that loops."""
    doomed_containers: int = 8
    work_containers: int = 6
    schedule: str = "* * * * *"
    interval: int = 2
    hold: int = 4
    heartbeat: int = 10
    is_emulated: bool = False

    def settings(self, limit: int) -> str:
        return SETTINGS.format(limit=limit, interval=self.interval, hold=self.hold, heartbeat=self.heartbeat)


EMULATED = Pace(8, 2, 1, 1, "*/2 * * * *", 15, 20, 60, is_emulated=True)


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
    pace: Pace


class Telling:
    def __init__(self, cluster: AnyCluster, pace: Pace) -> None:
        self.cluster, self.pace = cluster, pace
        self._began = time.monotonic()
        self.seconds: dict[str, float] = {}
        self.limit = 0

    def mark(self, what: str) -> None:
        self.seconds[what] = round(time.monotonic() - self._began, 1)
        print(f"kubernetes: {what} after {self.seconds[what]} s", file=sys.__stderr__, flush=True)

    def zombies(self) -> int:
        scanned = json.loads(self.cluster.run(self.cluster.program, "scan", "--no-bytes", "--json").stdout)
        return int(scanned["memcg"]["zombies"])

    def settle_in(self) -> None:
        self.limit = self.zombies() + self.pace.margin
        self.start_ours(self.limit)
        if self.pace.is_emulated:  # one after the other: all of it at once is minutes there
            self.wait_for_ours()
        self.cluster.apply(namespace())
        account = ("get", "serviceaccount", "default", "--namespace", SHOP)
        self.cluster.wait("pods may be made there", lambda: self.cluster.kubectl(*account, check=False))
        crashy = crashing_deployment(containers=self.pace.containers)
        doomed = crashing_deployment("doomed", 1, self.pace.doomed_containers)
        nightly = cron_job(self.pace.schedule, self.pace.work_containers)
        self.cluster.apply(crashy, healed_pod(), doomed, nightly)
        self.wait_for_ours()
        self.mark("agent ready")

    def start_ours(self, limit: int) -> None:
        objects = asking.manifests(self.cluster, "with-node-condition", self.pace.settings(limit))
        if self.pace.is_emulated:
            asking.be_patient(objects)
        self.cluster.apply(*objects)

    def wait_for_ours(self) -> None:
        self.cluster.wait("our agent is ready", lambda: asking.is_ready(asking.agent_pod(self.cluster)))

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
        if not self.is_relieved():
            self.move_the_limit()
        return self.wait_for_status("False")

    def is_relieved(self) -> bool:
        """Whether few enough are left a few seconds after the pods have gone."""
        self.cluster.wait("its pods are gone", lambda: "crashy" not in self.restarts())
        for _ in range(RELIEF_LOOKS):
            if self.zombies() < self.limit:
                return True
            time.sleep(2)
        return False

    def move_the_limit(self) -> None:
        """Where too many survive their pods (pages of the block device), or others make zombies: a new limit, a new agent."""
        self.start_ours(10**6)
        self.cluster.kubectl("delete", "pods", "--all", "-n", OURS)
        self.wait_for_ours()
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


def tell(cluster: AnyCluster, pace: Pace) -> Told:
    telling = Telling(cluster, pace)
    before = asking.conditions(cluster)
    telling.settle_in()
    pressed = telling.wait_for_status("True")
    later = telling.wait_for_heartbeat(pressed[CONDITION])
    makers = telling.wait_for_makers(CRASHY, DOOMED, NIGHTLY)
    telling.mark("makers named")
    telling.wait_until_it_loops()
    doctor = telling.doctor()
    page, page_doctor = asking.asked(cluster, "/"), json.loads(asking.asked(cluster, "/api/v1/doctor"))
    telling.mark("doctor and page asked")
    telling.delete_doomed()
    makers_after, doctor_after = asking.zombies_by_maker(cluster), telling.doctor()
    relieved = telling.relieve()
    events = asking.events(cluster)
    log = cluster.kubectl("logs", "daemonset/zombiescope", "-n", OURS)
    left = telling.remove()
    return Told(
        *(before, pressed, later, makers, doctor, page, page_doctor, makers_after, doctor_after),
        *(relieved, events, log, telling.after, left, telling.seconds, pace),
    )
