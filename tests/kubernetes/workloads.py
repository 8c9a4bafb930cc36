# SPDX-License-Identifier: Apache-2.0
"""What runs on the test cluster: a Deployment that crash-loops, a pod that healed, one that will be deleted, a CronJob."""

from __future__ import annotations

from typing import Any

from tests.kubernetes.images import WORKLOAD

Object = dict[str, Any]
SHOP = "shop"


def container(name: str, *words: str) -> Object:
    return {
        "name": name,
        "image": WORKLOAD,
        "imagePullPolicy": "Never",
        "args": list(words),
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "resources": {"requests": {"memory": "8Mi", "cpu": "5m"}, "limits": {"memory": "64Mi"}},
    }


def pod_spec(*containers: Object, **more: Any) -> Object:
    return {
        "automountServiceAccountToken": False,
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "data", "emptyDir": {}}],
        "containers": list(containers),
        **more,
    }


def _object(kind: str, version: str, name: str, spec: Object, namespace: str = SHOP) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _labelled(name: str, spec: Object) -> Object:
    return {"metadata": {"labels": {"app": name}}, "spec": spec}


def namespace(name: str = SHOP) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def crashing_deployment(name: str = "crashy", replicas: int = 2, containers: int = 8) -> Object:
    made = [container(f"c{at}", "crash", "/data", "16") for at in range(containers)]
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": _labelled(name, pod_spec(*made)),
    }
    return _object("Deployment", "apps/v1", name, spec)


def healed_pod(name: str = "healed", times: int = 3) -> Object:
    """Running for good after a few restarts."""
    return _object("Pod", "v1", name, pod_spec(container("main", "heal", "/data", "2", str(times))))


def cron_job(schedule: str, containers: int, name: str = "nightly") -> Object:
    made = [container(f"work{at}", "work", "/data", "8") for at in range(containers)]
    pod = pod_spec(*made, restartPolicy="Never")
    spec = {
        "schedule": schedule,
        "successfulJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"backoffLimit": 0, "template": _labelled(name, pod)}},
    }
    return _object("CronJob", "batch/v1beta1", name, spec)
