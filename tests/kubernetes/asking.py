# SPDX-License-Identifier: Apache-2.0
"""Questions that the tests ask of the cluster and of our agent in it."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml
from tests.kubernetes.cluster import TOP, Cluster
from tests.kubernetes.settings import NODE

OURS = "zombiescope"
CONDITION = "ZombieMemcgPressure"
OVERLAYS = TOP / "deploy/kubernetes/overlays"
_CONFIG = "/etc/zombiescope/zombiescope.toml"


def manifests(cluster: Cluster, overlay: str, config: str) -> list[dict[str, Any]]:
    """Of an overlay, with a configuration for the agent, as an operator would add one: by a ConfigMap."""
    objects = [each for each in yaml.safe_load_all(cluster.kubectl("kustomize", str(OVERLAYS / overlay))) if each]
    pod = next(each for each in objects if each["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "config", "configMap": {"name": "settings"}})
    agent = pod["containers"][0]
    agent["volumeMounts"].append({"name": "config", "mountPath": "/etc/zombiescope", "readOnly": True})
    agent["args"] += ["--config", _CONFIG]
    agent["readinessProbe"]["periodSeconds"] = 1
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": OURS}}
    return [*objects, {**settings, "data": {"zombiescope.toml": config}}]


def conditions(cluster: Cluster) -> dict[str, dict[str, str]]:
    return {each["type"]: each for each in cluster.get("node", NODE)["status"]["conditions"]}


def events(cluster: Cluster) -> list[dict[str, Any]]:
    found = cluster.get("events", "--namespace", "default")["items"]
    return [each for each in found if each["source"].get("component") == "zombiescope"]


def agent_pod(cluster: Cluster) -> dict[str, Any]:
    pods = cluster.get("pods", "--namespace", OURS, "--selector", "app.kubernetes.io/name=zombiescope")["items"]
    return pods[0] if pods else {}


def is_ready(pod: dict[str, Any]) -> bool:
    told = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in told)


def asked(cluster: Cluster, path: str) -> str:
    """Of the agent, at the address of its pod."""
    address = agent_pod(cluster)["status"]["podIP"]
    return cluster.run("curl", "--silent", "--show-error", "--fail", f"http://{address}:9753{path}").stdout


def metrics(cluster: Cluster) -> dict[str, float]:
    lines = [line for line in asked(cluster, "/metrics").splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def zombies_by_maker(cluster: Cluster) -> dict[str, float]:
    pattern = re.compile(r'zombiescope_memcg_maker_zombies\{maker="(.*)"\}')
    return {found[1]: value for name, value in metrics(cluster).items() if (found := pattern.fullmatch(name))}


def exec_json(cluster: Cluster, *words: str) -> Any:
    """A command of ours in the agent's pod."""
    pod = agent_pod(cluster)["metadata"]["name"]
    said = cluster.run(
        str(cluster.programs.kubectl),
        *("exec", "--namespace", OURS, pod, "--container", "agent", "--", "/usr/local/bin/zombiescope", *words),
        env=cluster.environment,
        check=False,
    )
    return json.loads(said.stdout)
