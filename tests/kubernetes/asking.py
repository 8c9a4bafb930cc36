# SPDX-License-Identifier: Apache-2.0
"""Questions that the tests ask of the cluster and of our agent in it."""

from __future__ import annotations

import base64
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


def as_list(objects: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def conditions(cluster: Cluster) -> dict[str, dict[str, str]]:
    return {each["type"]: each for each in cluster.get("node", NODE)["status"]["conditions"]}


def events(cluster: Cluster) -> list[dict[str, Any]]:
    found = cluster.get("events", "--namespace", "default")["items"]
    return [each for each in found if each["source"].get("component") == "zombiescope"]


def agent_pod(cluster: Cluster, namespace: str = OURS) -> dict[str, Any]:
    pods = cluster.get("pods", "--namespace", namespace, "--selector", "app.kubernetes.io/name=zombiescope")["items"]
    return pods[0] if pods else {}


def is_ready(pod: dict[str, Any]) -> bool:
    told = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in told)


def asked(cluster: Cluster, path: str, pod: dict[str, Any] | None = None) -> str:
    """Of the agent, at the address of its pod."""
    address = (pod or agent_pod(cluster))["status"]["podIP"]
    return cluster.run("curl", "--silent", "--show-error", "--fail", f"http://{address}:9753{path}").stdout


def metrics(cluster: Cluster, pod: dict[str, Any] | None = None) -> dict[str, float]:
    lines = [line for line in asked(cluster, "/metrics", pod).splitlines() if line and not line.startswith("#")]
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


ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def give_account(cluster: Cluster) -> None:
    """The account of a reader who may look at everything, where a pod would have it."""
    cluster.kubectl("create", "serviceaccount", "reader", "-n", "default")
    cluster.kubectl("create", "clusterrolebinding", "reader", "--clusterrole=view", "--serviceaccount=default:reader")

    def secrets() -> list[dict[str, Any]]:
        found = cluster.get("secrets", "-n", "default")["items"]
        return [
            each["data"] for each in found if each["metadata"]["name"].startswith("reader-token-") and "data" in each
        ]

    data = cluster.wait("the account has a token", secrets)[0]
    cluster.run("mkdir", "-p", ACCOUNT)
    for name in ("token", "ca.crt"):
        cluster.run("tee", f"{ACCOUNT}/{name}", input=base64.b64decode(data[name]).decode())


def take_account(cluster: Cluster) -> None:
    cluster.kubectl("delete", "clusterrolebinding", "reader")
    cluster.kubectl("delete", "serviceaccount", "reader", "-n", "default")
    cluster.run("rm", "-r", ACCOUNT)


def left_of_ours(cluster: Cluster, name: str = OURS) -> list[str]:
    """Objects of the whole cluster that have it in their names."""
    kinds = (
        "clusterroles,clusterrolebindings,priorityclasses,namespaces,daemonsets,pods,networkpolicies,serviceaccounts"
    )
    found = cluster.kubectl("get", kinds, "--all-namespaces", "-o", "name").split()
    return [each for each in found if name in each]
