# SPDX-License-Identifier: Apache-2.0
"""A cluster's node: the workload whose containers restart now is the origin of what it left, and the remedy stops it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from tests.build import case, snapshot
from tests.scenarios.facts import NOW, flows, remains, services
from tests.unit.kube_nodes import UID_A, UID_B
from tests.unit.remedies.situations import V1, autopsy, body, diagnosis, pin

from zombiescope.analysis.autopsy import Body
from zombiescope.analysis.looping import derive_loops, why_looping
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import diagnose
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.gate import judge_units
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.pods import Container, Owner, Pod, PodLoop, PodsSeen
from zombiescope.facts.reaping import Levers
from zombiescope.facts.units import RestartingContainer, Services, UnitFiles
from zombiescope.facts.zombies import Pin, PinKind
from zombiescope.presenters.doctor_report import Report
from zombiescope.presenters.doctor_text import render_report_text
from zombiescope.remedies.choice import Activity
from zombiescope.remedies.plan import AskHuman, Expected, Plan
from zombiescope.remedies.planner import propose

MAKER = "workload:shop/Deployment/crashy"
CRASHY = Owner("Deployment", "crashy")
PODS = (
    Pod(UID_A, "shop", "crashy-7d4b9c8f6-x2z4k", CRASHY),
    Pod(UID_B, "shop", "crashy-7d4b9c8f6-b7z5w", CRASHY),
)


def loop(pod: Pod, container: str, restarts: int = 5) -> PodLoop:
    why = f"restarted {restarts} times, the last 4 s ago, and is not running (Error, exit code 1)"
    return PodLoop(pod.uid, pod.called, container, pod.maker, restarts, why, "/var/log/pods", 20.0, "Error", 1)


def node(*loops: PodLoop, pods: tuple[Pod, ...] = PODS) -> PodsSeen:
    return PodsSeen(NOW, 10.0, pods, loops, "/var/log/pods", node="n1")


ALL = tuple(loop(pod, f"c{number}") for pod in PODS for number in range(8))


def crashing(zombies: int = 612, **more: object) -> Case:
    left = remains({MAKER: ("page_cache", zombies)}, days=0.01) if zombies else remains({})
    made = case(snapshot(zombies, live=100))
    return made._replace(remains=left, services=services(), pods=node(*ALL), flows=flows(), **more)  # type: ignore[arg-type]


def test_the_loop_is_tied_to_its_zombies() -> None:
    """Fault 1: all 612 zombies held by page cache of pods, containers crash-looping, and nothing was blamed."""
    found = diagnose(crashing(2_612))
    assert (found.origin, found.maker) == ("looping-container", MAKER)
    assert found.verdict.startswith(
        "`Deployment shop/crashy` is restarted over and over by kubelet (16 containers; Error, exit code 1) and has left 2,612 "
    )
    assert found.first_remedy == "stop-workload"
    chain = found.chains[0]
    assert chain[-1] == "looping-container"
    assert "zombie-population" in chain


def test_one_deployment_is_one_row_and_not_sixteen() -> None:
    """Faults 3 and 5."""
    finding = diagnose(crashing()).finding("looping-container")
    assert finding.summary.count("Deployment shop/crashy") == 1
    assert "(16 containers)" in finding.summary
    assert finding.title == "A container is restarted over and over"
    assert (finding.verdict, finding.severity) == (Verdict.PRESENT, Severity.CRITICAL)


def test_a_loop_that_leaves_nothing_is_no_leak() -> None:
    finding = diagnose(crashing(0)).finding("looping-container")
    assert (finding.verdict, finding.severity) == (Verdict.PRESENT, Severity.WARNING)


def test_pods_are_judged_where_services_cannot_be_asked() -> None:
    """Fault 6: a host mounted elsewhere, and the agent."""
    gap = Gap("services", "the services of a host mounted elsewhere cannot be asked")
    found = diagnose(crashing(2_612)._replace(services=gap))
    assert found.origin == "looping-container"
    calm = diagnose(crashing(2_612)._replace(services=gap, pods=node())).finding("looping-container")
    assert calm.verdict is Verdict.ABSENT
    assert "2 pods" in calm.summary
    assert gap.reason in calm.summary
    nobody = crashing(0)._replace(services=gap, pods=Gap("pods", "none"))
    assert diagnose(nobody).finding("looping-container").verdict is Verdict.UNKNOWN


def planned(seen: PodsSeen, growing: tuple[str, ...] = ()) -> Plan:
    empty = f"/var/lib/kubelet/pods/{UID_A}/volumes/kubernetes.io~empty-dir/d/f".encode()
    claim = f"/var/lib/kubelet/pods/{UID_A}/volumes/kubernetes.io~csi/pvc/mount/f".encode()
    inside = body(pin(PinKind.PAGE_CACHE, empty), maker=MAKER)
    bodies = [inside] * 90 + [body(pin(PinKind.PAGE_CACHE, claim), maker=MAKER)] * 10
    bodies += [
        body(pin(PinKind.PAGE_CACHE, empty), pin(PinKind.PAGE_CACHE, b"/dev/loop0", fstype="bdev"), maker=MAKER)
    ] * 5
    activity = Activity(growing=tuple((maker, None) for maker in growing), pods=seen)
    levers = Levers(hierarchy=V1)
    return propose(
        diagnosis("zombie-population", "looping-container"), autopsy(*bodies), None, levers, activity=activity
    )


def test_the_plan_scales_down_and_foretells_what_goes_with_the_pods() -> None:
    """Fault 2; and what is in somebody's claim, or on the block device itself, stays."""
    plan = planned(node(*ALL))
    step = plan.steps[0]
    assert step.recipe == "stop-workload"
    assert isinstance(step.change, AskHuman)
    commands = step.change.commands
    assert "kubectl -n shop scale deployment/crashy --replicas=0" in commands
    assert any(line.startswith("kubectl -n shop rollout undo deployment/crashy") for line in commands)
    assert any(line.startswith("kubectl -n shop set image deployment/crashy c0=IMAGE") for line in commands)
    assert any(line.startswith("kubectl cordon n1") for line in commands)
    assert any(line.startswith("kubectl drain n1 ") for line in commands)
    assert "guessed from the pod's name" in commands[0]
    assert step.expected is not None
    assert (step.expected.zombies_freed, step.expected.bytes_freed, step.expected.up_to) == (90, 90 * 4096, 90)
    assert step.expected.why_unknown.startswith("5 more stay until reclaim takes the disk's own pages")
    assert plan.foreseen <= 105, "what people free is not counted among what we do"


def test_what_was_only_sampled_is_not_promised() -> None:
    empty = f"/var/lib/kubelet/pods/{UID_A}/volumes/kubernetes.io~empty-dir/d/f".encode()
    held = [body(pin(PinKind.PAGE_CACHE, empty, sampled=True), maker=MAKER)] * 20
    activity = Activity(pods=node(*ALL))
    found = propose(diagnosis("zombie-population"), autopsy(*held), None, Levers(hierarchy=V1), activity=activity)
    expected = found.steps[0].expected
    assert expected is not None
    assert (expected.zombies_freed, expected.up_to) == (None, 20)


LAYER = b"/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/"


def inside(*pins: Pin, uid: str = UID_A) -> Body:
    """Of a zombie that died in a pod."""
    made = body(*pins, maker=MAKER)
    return made._replace(zombie=made.zombie._replace(path=f"/kubepods/besteffort/pod{uid}/{'a' * 64}".encode()))


def foretold(*bodies: Body, layers: dict[bytes, bool], volumes: dict[str, bytes] | None = None) -> Expected:
    levers, activity = Levers(hierarchy=V1, layers=layers, volumes=volumes or {}), Activity(pods=node(*ALL))
    found = propose(diagnosis("zombie-population"), autopsy(*bodies), None, levers, activity=activity)
    expected = found.steps[0].expected
    assert expected is not None
    return expected


@pytest.mark.parametrize(
    "layer",
    [
        LAYER + b"17/fs",
        b"/var/lib/rancher/k3s/agent/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/17/fs",
        b"/var/lib/docker/overlay2/%s/diff" % (b"0f" * 32),
        b"/var/lib/containers/storage/overlay/%s/diff" % (b"0f" * 32),
    ],
)
def test_what_a_container_wrote_into_its_own_layer_goes_with_it(layer: bytes) -> None:
    """As containerd, Docker and CRI-O lay them out. What it read of an image stays; so does what another pod wrote."""
    own, image = layer, layer.replace(b"17", b"4").replace(b"0f", b"0e")
    wrote = inside(pin(PinKind.PAGE_CACHE, own + b"/data/a"))
    read = inside(pin(PinKind.PAGE_CACHE, image + b"/bin/sh"))
    of_disk = inside(*wrote.pins, pin(PinKind.PAGE_CACHE, b"/dev/vda1", fstype="bdev"))
    elsewhere = inside(*wrote.pins, uid=UID_B.replace("b", "e"))
    layers = {own.rpartition(b"/")[0]: True, image.rpartition(b"/")[0]: False}
    found = foretold(*[wrote] * 7, *[read] * 5, *[of_disk] * 2, elsewhere, layers=layers)
    assert (found.zombies_freed, found.up_to) == (7, 7)
    assert found.why_unknown.startswith("2 more stay until reclaim")


def test_it_is_said_why_the_end_of_pods_frees_none() -> None:
    volume = f"/var/lib/kubelet/pods/{UID_A}/volumes/kubernetes.io~empty-dir/d/f".encode()
    of_disk = inside(pin(PinKind.PAGE_CACHE, volume), pin(PinKind.PAGE_CACHE, b"/dev/vda1", fstype="bdev"))
    of_node = inside(pin(PinKind.PAGE_CACHE, b"/srv/data"))
    others = body(pin(PinKind.PAGE_CACHE, b"/srv/data"))
    for bodies, why in (
        ([of_disk] * 3, "3 stay until reclaim takes"),
        ([of_node] * 3, "what holds theirs stays when the pods end"),
        ([others] * 3, "no zombie of these pods was seen"),
    ):
        found = foretold(*bodies, layers={})
        assert (found.zombies_freed, found.up_to) == (0, 0)
        assert found.why_unknown.startswith(why)


def test_a_volume_in_memory_is_known_where_it_is_not_mounted() -> None:
    """From a pod of ours: a file there has no path, and the machine's own mounts tell whose it is."""
    place = f"/var/lib/kubelet/pods/{UID_A}/volumes/kubernetes.io~empty-dir/d".encode()
    unseen = inside(pin(PinKind.TMPFS, None, path_in_fs=b"/f", fstype="tmpfs", device="0:77"))
    other = inside(pin(PinKind.TMPFS, None, path_in_fs=b"/f", fstype="tmpfs", device="0:78"))
    found = foretold(*[unseen] * 6, other, layers={}, volumes={"0:77": place})
    assert (found.zombies_freed, found.up_to) == (6, 6)


def test_layers_that_cannot_be_looked_at_are_no_promise() -> None:
    wrote = inside(pin(PinKind.PAGE_CACHE, LAYER + b"17/fs/data/a"))
    volume = f"/var/lib/kubelet/pods/{UID_A}/volumes/kubernetes.io~empty-dir/d/f".encode()
    sure = inside(pin(PinKind.PAGE_CACHE, volume))
    found = foretold(*[wrote] * 4, *[sure] * 6, layers={})
    assert (found.zombies_freed, found.up_to) == (None, 10)
    assert "which are of containers, that go," in found.why_unknown
    few = foretold(wrote, *[sure] * 9, layers={})
    assert (few.zombies_freed, few.up_to) == (9, 10)
    assert few.why_unknown.startswith("1 more may go")


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("StatefulSet", "kubectl -n shop scale statefulset/x --replicas=0"),
        ("CronJob", 'kubectl -n shop patch cronjob/x -p \'{"spec":{"suspend":true}}\''),
        ("Job", "kubectl -n shop delete job/x "),
        ("DaemonSet", "kubectl -n shop patch daemonset/x -p "),
        ("Pod", "kubectl -n shop delete pod/x "),
        ("StaticPod", "grep -l 'name: x' /etc/kubernetes/manifests/*"),
        ("Rollout", "kubectl -n shop get rollout/x "),
    ],
)
def test_every_kind_has_a_command_that_can_be_copied(kind: str, command: str) -> None:
    pod = Pod(UID_A, "shop", "x-29384756-b7z5w", Owner(kind, "x", is_guess=False))
    step = planned(node(pods=(pod,)), (pod.maker,)).steps[0]
    assert isinstance(step.change, AskHuman)
    assert step.change.commands[0].startswith(command)
    assert "guessed" not in " ".join(step.change.commands)


def test_hostile_names_cannot_leave_the_quotes() -> None:
    pod = Pod(UID_A, "a'; reboot #", "$(reboot)", Owner("Pod", "$(reboot)", is_guess=False))
    step = planned(node(pods=(pod,)), (pod.maker,)).steps[0]
    assert isinstance(step.change, AskHuman)
    assert step.change.commands[0].startswith("kubectl -n 'a'\"'\"'; reboot #' delete 'pod/$(reboot)'")


@pytest.mark.parametrize(
    "kind", [*("Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "Pod", "StaticPod"), "--server=http:"]
)
def test_no_name_is_taken_for_an_option(kind: str) -> None:
    """`--server=` would send the reader's token to whoever wrote the name. No cluster allows it; a recording may have it."""
    pod = Pod(UID_A, "--token=x", "--server=x-29384756-b7z5w", Owner(kind, "--server=x"))
    seen = node(loop(pod, "--kubeconfig=x"), pods=(pod,))._replace(node="--as=x")
    step = next(each for each in planned(seen, (pod.maker,)).steps if each.recipe == "stop-workload")
    assert isinstance(step.change, AskHuman)
    asked = [shlex.split(command, comments=True) for command in step.change.commands if command.startswith("kubectl")]
    ours = ("--replicas=0", "--ignore-daemonsets", "--delete-emptydir-data")
    assert [word for words in asked for word in words if word.startswith("--") and word not in ours] == []
    assert any("NODE" in words for words in asked)


def test_the_image_of_a_cron_job_can_be_mended() -> None:
    pod = Pod(UID_A, "shop", "x-29384756-b7z5w", Owner("CronJob", "x", is_guess=False))
    step = planned(node(loop(pod, "c0"), pods=(pod,)), (pod.maker,)).steps[0]
    assert isinstance(step.change, AskHuman)
    assert any(line.startswith("kubectl -n shop set image cronjob/x c0=IMAGE") for line in step.change.commands)


def test_the_doctor_says_what_to_type() -> None:
    found = crashing(2_612)
    report = Report(found, diagnose(found), plan=planned(node(*ALL)))
    drawn = StringIO()
    Console(width=200, file=drawn).print(*render_report_text(report))
    text = drawn.getvalue()
    assert "kubectl -n shop scale deployment/crashy --replicas=0" in text
    assert "you do this by hand; frees 90 zombies" in text
    assert "inside a running unit" not in text


def container(**facts: object) -> RestartingContainer:
    made = RestartingContainer(
        "kubelet", "shop/x/c", 5, "/var/log/pods/x", NOW - 4, 20.0, is_running=False, maker=MAKER
    )
    return replace(made, **facts)  # type: ignore[arg-type]


def test_an_audit_folds_a_workload_and_leaves_old_restarts_alone() -> None:
    both = (
        container(),
        container(name="shop/x/d"),
        container(name="old/y/c", maker="workload:old/Pod/y", restarted_at=NOW - 9000),
    )
    loops = derive_loops(Services(UnitFiles({}), None, containers=both, now=NOW))
    assert [(each.name, each.kind, each.restarts) for each in loops] == [(MAKER, "pod", 10)]
    assert derive_loops(Services(UnitFiles({}), None, containers=both)) == (), "nothing restarts in an image"


def test_a_healthy_pod_with_old_restarts_is_ok_for_check() -> None:
    from tests.unit.remedies.situations import audit  # noqa: PLC0415

    from zombiescope.diagnosis.limits import Limits  # noqa: PLC0415

    loops = derive_loops(Services(UnitFiles({}), None, containers=(container(restarted_at=NOW - 9000),), now=NOW))
    judged = replace(audit(loops=()), loops=loops)
    assert {str(reason.verdict) for reason in judge_units(judged, Limits()) if reason.what.startswith("looping")} == {
        "OK"
    }
    looping = derive_loops(Services(UnitFiles({}), None, containers=(container(),), now=NOW))
    (reason,) = [
        each for each in judge_units(replace(judged, loops=looping), Limits()) if each.what.startswith("looping")
    ]
    assert reason.what == f"looping-container:{MAKER}"


@pytest.mark.parametrize(
    ("facts", "is_loop"),
    [
        ({"restarts": 2, "is_running": False}, False),
        ({"reason": "CrashLoopBackOff", "restarted_at": None}, True),
        ({"restarted_at": None}, False),
        ({"is_running": False}, True),
        ({"is_running": True}, True),
        ({"is_running": True, "pause_seconds": 3.0}, False),
        ({"is_running": True, "pause_seconds": None}, False),
        ({"restarted_at": NOW - 400, "is_running": False}, False),
    ],
)
def test_what_is_a_loop_now(facts: dict[str, object], *, is_loop: bool) -> None:
    made = Container("c", 5, NOW - 4, 20.0)._replace(**facts)  # type: ignore[arg-type]
    assert bool(why_looping(made, NOW)) is is_loop
