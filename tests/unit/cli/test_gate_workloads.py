# SPDX-License-Identifier: Apache-2.0
"""Labelled trees of what is started beside systemd's units, guilty ones beside near twins. The labels were written first."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.unit.cli.test_gate_trees import SSH, unit
from tests.unit.trees import TARGETS, WANTED, enabled, plant

from zombiescope.cli.main import main

DOCKER = enabled("docker.service", WANTED)
KUBELET = {**enabled("kubelet.service", WANTED), "var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n"}
CRON = enabled("cron.service", WANTED)
SUPERVISOR = enabled("supervisor.service", WANTED)
SESSIONS = {
    "etc/pam.d/cron": "@include common-session\n",
    "etc/pam.d/common-session": "session optional pam_systemd.so\n",
}
QUADLET = "[Container]\nImage=quay.io/vale/heron:2\n[Service]\nRestart=always\nRestartSec=33\n"
QUADLET += "[Install]\nWantedBy=multi-user.target\n"


def docker(name: str, policy: str, image: str, retries: int = 0, env: tuple[str, ...] = ()) -> dict[str, str]:
    folder = "var/lib/docker/containers/" + name.encode().hex().ljust(64, "0")
    about = {
        "Name": f"/{name}",
        "Config": {"Image": image, "Env": list(env)},
        "Path": "/run",
        "State": {"Running": False},
    }
    restart = {"RestartPolicy": {"Name": policy, "MaximumRetryCount": retries}}
    return {f"{folder}/config.v2.json": json.dumps(about), f"{folder}/hostconfig.json": json.dumps(restart)}


def pod(kind: str, image: str, **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": image, **more.pop("container", {})}
    inner = {"containers": [container], **more.pop("pod", {})}
    spec = inner if kind == "Pod" else {"template": {"spec": inner}, **more}
    return {"kind": kind, "metadata": {"name": "heron", "namespace": "lake"}, "spec": spec}


def manifest(document: dict[str, Any]) -> dict[str, str]:
    return {"etc/kubernetes/manifests/heron.yaml": json.dumps(document)}


class Label(NamedTuple):
    files: dict[str, str]
    verdict: str
    what: str = ""
    """A reason that is not OK; empty: none is."""
    not_judged: int = 0


ECS_POD = pod("Pod", "amazon/amazon-ecs-agent:latest")
LABELS = {
    # Docker
    "docker, always, unknown": Label(
        {**DOCKER, **docker("heron", "always", "vale/heron:2")}, "WARNING", "loop-risk:docker/heron", 1
    ),
    "docker, unless-stopped, unknown": Label(
        {**DOCKER, **docker("heron", "unless-stopped", "vale/heron:2")}, "WARNING", "loop-risk:docker/heron", 1
    ),
    "docker, a limit of retries": Label({**DOCKER, **docker("heron", "on-failure", "vale/heron:2", 4)}, "OK"),
    "docker, on-failure without a limit": Label(
        {**DOCKER, **docker("heron", "on-failure", "vale/heron:2")}, "WARNING", "loop-risk:docker/heron", 1
    ),
    "docker, no policy": Label({**DOCKER, **docker("heron", "no", "vale/heron:2")}, "OK"),
    "docker, no daemon": Label({**SSH, **docker("heron", "always", "vale/heron:2")}, "OK"),
    "docker, a policy that is none": Label(
        {**DOCKER, **docker("heron", "sometimes", "vale/heron:2")}, "UNKNOWN", "loop-risk:docker/heron", 1
    ),
    "docker, ECS agent beside kubelet": Label(
        {**DOCKER, **KUBELET, **docker("ecs-agent", "always", "amazon/amazon-ecs-agent:latest")},
        "CRITICAL",
        "image-risk:docker/ecs-agent",
    ),
    "docker, ECS agent with a cluster": Label(
        {**DOCKER, **docker("ecs-agent", "always", "amazon/amazon-ecs-agent", env=("ECS_CLUSTER=orchard-7",))}, "OK"
    ),
    "docker, an exporter": Label({**DOCKER, **docker("metrics", "always", "quay.io/prometheus/node-exporter:v1")}, "OK"),
    "docker, its file is not JSON": Label(
        {**DOCKER, "var/lib/docker/containers/abc/config.v2.json": "{"}, "UNKNOWN", "workloads"
    ),
    # podman
    "quadlet, unknown, loops": Label(
        {**SSH, "etc/containers/systemd/heron.container": QUADLET}, "WARNING", "loop-risk:heron.service", 1
    ),
    "quadlet, not wanted": Label(
        {**SSH, "etc/containers/systemd/heron.container": QUADLET.partition("[Install]")[0]}, "OK"
    ),
    "quadlet, not restarted": Label(
        {**SSH, "etc/containers/systemd/heron.container": QUADLET.replace("Restart=always\n", "")}, "OK", "", 1
    ),
    "quadlet, limited": Label(
        {
            **SSH,
            "usr/share/containers/systemd/heron.container": "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=4\n" + QUADLET,
        },
        "OK",
        "",
        1,
    ),
    "quadlet, named like systemd": Label(
        {**SSH, "etc/containers/systemd/systemd-heron.container": QUADLET}, "WARNING", "loop-risk:systemd-heron.service", 1
    ),
    "quadlet, a known image": Label(
        {**SSH, "etc/containers/systemd/m.container": QUADLET.replace("vale/heron", "prometheus/node-exporter")}, "OK"
    ),
    "podman, its policy is not known": Label(
        {
            **enabled("podman-restart.service", WANTED),
            "var/lib/containers/storage/overlay-containers/containers.json": '[{"id": "ab12", "names": ["heron"]}]',
        },
        "UNKNOWN",
        "loop-risk:podman/heron",
        1,
    ),
    "podman, nothing restarts it": Label(
        {**SSH, "var/lib/containers/storage/overlay-containers/containers.json": '[{"id": "ab12", "names": ["heron"]}]'},
        "OK",
    ),
    # static pods
    "static pod, unknown": Label(
        {**KUBELET, **manifest(pod("Pod", "vale/heron"))}, "WARNING", "loop-risk:pod/lake/heron/main", 1
    ),
    "static pod, never restarted": Label(
        {**KUBELET, **manifest(pod("Pod", "vale/heron", pod={"restartPolicy": "Never"}))}, "OK"
    ),
    "static pod, the control plane": Label({**KUBELET, **manifest(pod("Pod", "registry.k8s.io/kube-apiserver:v1"))}, "OK"),
    "static pod, the ECS agent": Label(
        {**KUBELET, **manifest(ECS_POD)}, "CRITICAL", "image-risk:pod/lake/heron/main"
    ),
    "static pod, cut short": Label(
        {**KUBELET, "etc/kubernetes/manifests/heron.yaml": "kind: Pod\nspec: {containers: [\n"}, "UNKNOWN", "workloads"
    ),
    # supervisord: it loops, and leaves no cgroup
    "supervisord, restarted for ever": Label(
        {**SUPERVISOR, "etc/supervisor/conf.d/h.conf": "[program:heron]\ncommand=/opt/heron\nautorestart=true\n"}, "OK"
    ),
    "supervisord, containers for ever": Label(
        {**SUPERVISOR, "etc/supervisor/conf.d/h.conf": "[program:heron]\ncommand=docker run --rm vale/heron\n"},
        "WARNING",
        "loop-risk:supervisord/heron",
        1,
    ),
    "supervisord, containers, not restarted": Label(
        {
            **SUPERVISOR,
            "etc/supervisor/conf.d/h.conf": "[program:heron]\ncommand=docker run --rm vale/heron\nautorestart=false\n",
        },
        "OK",
    ),
    # schedules
    "cron, each minute, sessions": Label(
        {**CRON, **SESSIONS, "etc/cron.d/heron": "* * * * * root /opt/heron\n"},
        "WARNING",
        "loop-risk:cron/heron:root /opt/heron",
        1,
    ),
    "cron, each minute, no sessions": Label({**CRON, "etc/cron.d/heron": "* * * * * root /opt/heron\n"}, "OK"),
    "cron, each quarter, sessions": Label({**CRON, **SESSIONS, "etc/cron.d/heron": "*/15 * * * * root /opt/heron\n"}, "OK"),
    "cron, each minute, no cron": Label({**SSH, **SESSIONS, "etc/cron.d/heron": "* * * * * root /opt/heron\n"}, "OK"),
    "timer, every ten seconds": Label(
        {
            **enabled("heron.timer", "[Timer]\nOnUnitInactiveSec=10\nOnBootSec=1min\n"),
            "usr/lib/systemd/system/heron.service": unit("no"),
        },
        "WARNING",
        "loop-risk:timer/heron.timer",
        2,
    ),
    "timer, every day": Label(
        {
            **enabled("heron.timer", "[Timer]\nOnCalendar=Mon..Fri 06:30\n"),
            "usr/lib/systemd/system/heron.service": unit("no"),
        },
        "OK",
        "",
        1,
    ),
    "timer, each minute, a base system's": Label(
        {
            **enabled("logrotate.timer", "[Timer]\nOnCalendar=minutely\n"),
            "usr/lib/systemd/system/logrotate.service": unit("no"),
        },
        "OK",
    ),
    # a unit that a target upholds is started again whatever its policy says
    "upheld by a target": Label(
        {
            **SSH,
            "usr/lib/systemd/system/heron.service": unit("no"),
            "etc/systemd/system/multi-user.target.upholds/heron.service": "-> /usr/lib/systemd/system/heron.service",
        },
        "WARNING",
        "loop-risk:heron.service",
        1,
    ),
}  # fmt: skip


def judged(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["check", "--json", *arguments])
    document: dict[str, Any] = json.loads(capfd.readouterr().out)
    return status, document


@pytest.mark.parametrize("name", LABELS)
def test_a_labelled_tree(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    label = LABELS[name]
    status, document = judged(capfd, "--root", str(plant(tmp_path, {**TARGETS, **label.files})))
    failing = [reason["what"] for reason in document["reasons"] if reason["verdict"] != "OK"]
    assert (document["verdict"], failing) == (label.verdict, [label.what] if label.what else [])
    assert status == ["OK", "WARNING", "CRITICAL", "UNKNOWN"].index(label.verdict)
    assert document["not_judged"] == label.not_judged


def test_manifests_alone_are_judged_without_this_host(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sidecar = {"initContainers": [{"name": "mesh", "image": "vale/mesh", "restartPolicy": "Always"}, {"name": "once"}]}
    text = "---\n".join(
        json.dumps(document) + "\n"
        for document in (
            pod("DaemonSet", "amazon/amazon-ecs-agent"),
            pod("Deployment", "docker.io/calico/node:v3", pod=sidecar),
            pod("Deployment", "vale/off", replicas=0),
            {"kind": "List", "items": [pod("Job", "vale/once")]},
            {"kind": "ConfigMap", "data": {"a": "b"}},
        )
    )
    plant(tmp_path, {"base/all.yaml": text, "compose.yml": "services:\n  web: {image: vale/web, restart: always}\n"})
    status, document = judged(capfd, "--manifests", str(tmp_path))
    assert status == 2
    assert {reason["what"]: reason["verdict"] for reason in document["reasons"]} == {
        "image-risk:daemonset/lake/heron/main": "CRITICAL",
        "loop-risk:deployment/lake/heron/mesh": "WARNING",
        "loop-risk:compose/web": "WARNING",
    }
    assert main(["audit", "--manifests", str(tmp_path), "--json", "--all"]) == 0
    workloads = {one["name"]: one for one in json.loads(capfd.readouterr().out)["workloads"]}
    assert workloads["deployment/lake/heron/mesh"]["is_sidecar"]
    assert workloads["job/lake/heron/main"]["for_ever"] is False
    assert "deployment/lake/heron/once" not in workloads


def test_an_owner_declares_the_need_of_a_workload(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path, {"m/a.json": json.dumps(pod("DaemonSet", "vale/heron")), "gate.toml": ""})
    gate = tmp_path / "gate.toml"
    gate.write_text('[[need]]\nunit = "daemonset/lake/heron/*"\nreason = "counts birds; team Lake"\n')
    assert judged(capfd, "--manifests", str(tmp_path / "m"))[0] == 1
    assert judged(capfd, "--manifests", str(tmp_path / "m"), "--config", str(gate))[0] == 0


def test_a_folder_without_a_workload_is_unknown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert judged(capfd, "--manifests", str(tmp_path))[0] == 3
    assert main(["check", "--manifests", str(tmp_path / "none")]) == 3
    assert "there is no such folder" in capfd.readouterr().err


def test_without_pyyaml_json_is_read_and_yaml_is_a_gap(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    plant(tmp_path, {"a.json": json.dumps(pod("DaemonSet", "calico/node"))})
    assert judged(capfd, "--manifests", str(tmp_path))[0] == 0
    plant(tmp_path, {"b.yaml": "kind: DaemonSet\n"})
    status, document = judged(capfd, "--manifests", str(tmp_path))
    assert status == 3
    assert "zombiescope[manifests]" in document["reasons"][0]["summary"]
    assert main(["audit", "--manifests", str(tmp_path)]) == 0
    first = capfd.readouterr().out.splitlines()[0]
    assert first.endswith(
        "nothing to fix in 1 workload, but not all could be read: 1 manifest, such as /b.yaml: PyYAML is not installed"
    )


BOMB = "a0: &a0 {k: 1}\n" + "".join(
    f"a{n}: &a{n}\n" + "".join(f"  k{m}: {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for m in range(9))
    for n in range(1, 9)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "a: &a [*a]\nkind: Pod\n",
        "[" * 5000,
        "kind: Pod\nspec: 7\nmetadata: [1]\n",
        "kind: [Pod]\n",
        "!!python/object/apply:os.system ['true']\n",
        'kind: Pod\nspec: {containers: [{name: "\\e[31mred\\n", image: [1]}]}\n',
        "kind: List\nitems: [{kind: List, items: [{kind: List}]}]\n",
        "\x00\x01\x02",
    ],
)  # fmt: skip
def test_a_hostile_manifest_is_an_answer_without_a_traceback(
    text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plant(tmp_path, {"x.yaml": text})
    status = main(["check", "--manifests", str(tmp_path)])
    said = capfd.readouterr()
    assert status in (1, 3)
    assert "\x1b" not in said.out
    assert "Traceback" not in said.err
