# SPDX-License-Identifier: Apache-2.0
"""Questions that the tests ask of the cluster and of our agent in it."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import yaml
from tests.kubernetes.any_cluster import TOP, AnyCluster
from tests.kubernetes.settings import NODE

OURS = "zombiescope"
CONDITION = "ZombieMemcgPressure"
OVERLAYS = TOP / "deploy/kubernetes/overlays"
_CONFIG = "/etc/zombiescope/zombiescope.toml"


def manifests(cluster: AnyCluster, overlay: str, config: str) -> list[dict[str, Any]]:
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


def be_patient(objects: list[dict[str, Any]]) -> None:
    """With an agent whose processor is emulated: a tenth of a core is nothing there, and a probe's second is soon over."""
    agent = next(each for each in objects if each["kind"] == "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    agent["resources"]["limits"]["cpu"] = "2"
    for probe in ("readinessProbe", "livenessProbe"):
        agent[probe] |= {"timeoutSeconds": 60, "periodSeconds": 10, "failureThreshold": 60}


def as_list(objects: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def conditions(cluster: AnyCluster) -> dict[str, dict[str, str]]:
    return {each["type"]: each for each in cluster.get("node", NODE)["status"]["conditions"]}


def events(cluster: AnyCluster) -> list[dict[str, Any]]:
    found = cluster.get("events", "--namespace", "default")["items"]
    return [each for each in found if each["source"].get("component") == "zombiescope"]


def agent_pod(cluster: AnyCluster, namespace: str = OURS) -> dict[str, Any]:
    pods = cluster.get("pods", "--namespace", namespace, "--selector", "app.kubernetes.io/name=zombiescope")["items"]
    return pods[0] if pods else {}


def is_ready(pod: dict[str, Any]) -> bool:
    told = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in told)


def asked(cluster: AnyCluster, path: str, pod: dict[str, Any] | None = None) -> str:
    return cluster.answer(pod or agent_pod(cluster), path)


def metrics(cluster: AnyCluster, pod: dict[str, Any] | None = None) -> dict[str, float]:
    lines = [line for line in asked(cluster, "/metrics", pod).splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def zombies_by_maker(cluster: AnyCluster) -> dict[str, float]:
    pattern = re.compile(r'zombiescope_memcg_maker_zombies\{maker="(.*)"\}')
    return {found[1]: value for name, value in metrics(cluster).items() if (found := pattern.fullmatch(name))}


def exec_json(cluster: AnyCluster, *words: str) -> Any:
    """A command of ours in the agent's pod."""
    pod = agent_pod(cluster)["metadata"]["name"]
    inside = ("exec", "--namespace", OURS, pod, "--container", "agent", "--", "/usr/local/bin/zombiescope", *words)
    said = cluster.kubectl_done(*inside)
    assert said.stdout, said.stderr
    return json.loads(said.stdout)


ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def give_account(cluster: AnyCluster) -> None:
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


def take_account(cluster: AnyCluster) -> None:
    cluster.kubectl("delete", "clusterrolebinding", "reader")
    cluster.kubectl("delete", "serviceaccount", "reader", "-n", "default")
    cluster.run("rm", "-r", ACCOUNT)


def left_of_ours(cluster: AnyCluster, name: str = OURS) -> list[str]:
    """Objects of the whole cluster that have it in their names."""
    kinds = (
        "clusterroles,clusterrolebindings,priorityclasses,namespaces,daemonsets,pods,networkpolicies,serviceaccounts"
    )
    found = cluster.kubectl("get", kinds, "--all-namespaces", "-o", "name").split()
    return [each for each in found if name in each]
