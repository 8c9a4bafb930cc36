# SPDX-License-Identifier: Apache-2.0
"""The manifests as kubectl and helm render them: the same objects, little asked for, the version everywhere the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes.build import ensure

from zombiescope import __version__

TOP = Path(__file__).resolve().parents[2]
MANIFESTS, CHART = TOP / "deploy/kubernetes", TOP / "deploy/helm/zombiescope"
FOUR = ["BPF", "PERFMON", "SYSLOG", "DAC_READ_SEARCH"]
VARIANTS = {
    "base": [],
    "overlays/metrics-only": ["metricsOnly=true"],
    "overlays/with-node-condition": ["nodeCondition=true"],
    "overlays/with-profiles": ["profiles=true"],
}
Object = dict[str, Any]


def by_name(text: str) -> dict[tuple[str, str], Object]:
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text) if each}


def said(*words: str | Path) -> str:
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kustomized(folder: Path) -> dict[tuple[str, str], Object]:
    return by_name(said(ensure().kubectl, "kustomize", folder))


def from_chart(*values: str) -> dict[tuple[str, str], Object]:
    helm = Path(sys.executable).with_name("helm")
    chosen = [word for value in values for word in ("--set", value)]
    return by_name(said(helm, "template", "zombiescope", CHART, "--namespace", "zombiescope", *chosen))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_chart_renders_the_same_objects(variant: str) -> None:
    plain, chart = kustomized(MANIFESTS / variant), from_chart(*VARIANTS[variant])
    namespace = plain.pop(("Namespace", "zombiescope"))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert set(plain) == set(chart)
    for name in plain:
        assert plain[name] == chart[name], name


def test_the_clusters_name_is_a_setting_of_the_agent() -> None:
    plain, named = from_chart(), from_chart("cluster=prod-eu-1")
    agent = plain["DaemonSet", "zombiescope"]["spec"]["template"]["spec"]["containers"][0]
    agent["env"].append({"name": "ZOMBIESCOPE_AGENT_KUBERNETES_CLUSTER", "value": "prod-eu-1"})
    assert named == plain


def test_all_at_once_with_a_pod_monitor(tmp_path: Path) -> None:
    for part in ("base", "components"):
        (tmp_path / part).symlink_to(MANIFESTS / part)
    components = ["node-condition", "profiles", "pod-monitor", "recursive-read-only"]
    wanted = {
        "resources": ["base"],
        "components": [f"components/{name}" for name in components],
        "namespace": "zombiescope",
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(wanted))
    plain = by_name(said(ensure().kubectl, "kustomize", "--load-restrictor", "LoadRestrictionsNone", tmp_path))
    del plain["Namespace", "zombiescope"]
    assert plain == from_chart("nodeCondition=true", "profiles=true", "podMonitor=true", "recursiveReadOnly=true")
    agent = plain["DaemonSet", "zombiescope"]["spec"]["template"]["spec"]["containers"][0]
    recursive = {each["mountPath"] for each in agent["volumeMounts"] if each.get("recursiveReadOnly") == "Enabled"}
    assert recursive == {"/host/proc", "/host/sys"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_asks_for_little(variant: str) -> None:
    pod = kustomized(MANIFESTS / variant)["DaemonSet", "zombiescope"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostPID", "hostNetwork", "hostIPC"} & set(pod)
    paths = {each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each}
    assert paths == {"/proc", "/sys", "/var/log/pods", "/var/log/containers"}
    on_host = {each["name"] for each in pod["volumes"] if "hostPath" in each}
    for container in pod["containers"]:
        asked = container["securityContext"]
        assert (asked["privileged"], asked["allowPrivilegeEscalation"], asked["readOnlyRootFilesystem"]) == (
            False,
            False,
            True,
        )
        assert asked["capabilities"]["drop"] == ["ALL"]
        assert asked["capabilities"].get("add", []) == ([] if "metrics-only" in variant else FOUR)
        assert set(container["resources"]["limits"]) == {"cpu", "memory"}
        assert all(each["readOnly"] for each in container["volumeMounts"] if each["name"] in on_host)
        assert container["image"] == f"zombiescope:{__version__}"
    assert pod["automountServiceAccountToken"] is ("node-condition" in variant)


def test_rights_are_the_measured_least_and_only_where_the_cluster_is_told() -> None:
    for variant in VARIANTS:
        roles = [each for (kind, _), each in kustomized(MANIFESTS / variant).items() if kind == "ClusterRole"]
        if "node-condition" not in variant:
            assert not roles
            continue
        rules = [(rule["resources"], rule["verbs"]) for rule in roles[0]["rules"]]
        assert rules == [(["nodes/status"], ["patch"]), (["events"], ["create", "patch"])]


def test_nothing_goes_out_unless_the_cluster_is_told() -> None:
    for variant in VARIANTS:
        egress = kustomized(MANIFESTS / variant)["NetworkPolicy", "zombiescope"]["spec"]["egress"]
        assert bool(egress) == ("node-condition" in variant)


def test_the_chart_has_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
