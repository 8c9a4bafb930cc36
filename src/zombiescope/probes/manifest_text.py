# SPDX-License-Identifier: Apache-2.0
"""Kubernetes manifests and compose files as workloads: what each container is, who restarts it, how often.

JSON is read by itself; YAML by PyYAML's safe loader, where that is installed (`zombiescope[manifests]`). Merged keys are counted: a
few hundred bytes of them can stand for gigabytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from zombiescope.facts.names import shown, shown_text
from zombiescope.facts.units import Starter, Workload

MANIFEST_BYTES = 1 << 20
MOST_WORKLOADS = 2_000
"""Of one file."""
_MOST_MERGED = 20_000
_DEPTH = 4
_TEMPLATED = {"DaemonSet", "Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job"}
NO_YAML = "PyYAML is not installed"


class ManifestError(Exception):
    """Why a manifest could not be read."""


def parse_manifest(data: bytes, path: str) -> list[Workload]:
    """Every workload that a file declares; raises ManifestError."""
    found: list[Workload] = []
    for document in _documents(data):
        for workload in _workloads(document, path):
            if len(found) >= MOST_WORKLOADS:
                raise ManifestError(f"more than {MOST_WORKLOADS:,} workloads")
            found.append(workload)
    return found


def _documents(data: bytes) -> list[Any]:
    if len(data) > MANIFEST_BYTES:
        raise ManifestError(f"more than {MANIFEST_BYTES:,} bytes")
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return [json.loads(data)]
        except RecursionError as error:
            raise ManifestError("nested too deeply") from error
        except ValueError:
            pass  # YAML may begin so as well
    return _yaml_documents(data)


def _yaml_documents(data: bytes) -> list[Any]:
    try:
        import yaml  # noqa: PLC0415 (an extra, and 20 ms)
    except ImportError as error:
        raise ManifestError(NO_YAML) from error

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        merged = 0

        def flatten_mapping(self, node: Any) -> None:
            super().flatten_mapping(node)
            type(self).merged += len(node.value)
            if self.merged > _MOST_MERGED:
                raise ManifestError("its merged keys stand for too much")

    try:
        return list(yaml.load_all(data, Loader=Loader))
    except RecursionError as error:
        raise ManifestError("nested too deeply") from error
    except (yaml.YAMLError, ValueError, TypeError) as error:
        why = str(error).partition("\n")[0][:200]
        raise ManifestError(f"not YAML: {shown(why.encode('utf-8', 'replace'))}") from error


def _workloads(document: Any, path: str, depth: int = 0) -> Iterator[Workload]:
    kind = document.get("kind") if isinstance(document, dict) else ()
    if not (kind is None or isinstance(kind, str)):
        return
    if kind is None and isinstance(document.get("services"), dict):
        yield from _compose(document["services"], path)
    elif kind is not None and kind.endswith("List") and depth < _DEPTH:
        for item in _list(document.get("items")):
            yield from _workloads(item, path, depth + 1)
    elif kind == "Pod":
        yield from _containers(document, _dict(document.get("spec")), path)
    elif kind in _TEMPLATED:
        yield from _containers(document, _pod_of(document), path)
    elif kind == "CronJob":
        job = _dict(_dict(document.get("spec")).get("jobTemplate"))
        yield from _containers(document, _pod_of(job), path)


def _pod_of(document: Any) -> dict[Any, Any]:
    return _dict(_dict(_dict(_dict(document).get("spec")).get("template")).get("spec"))


def _containers(document: dict[Any, Any], pod: dict[Any, Any], path: str) -> Iterator[Workload]:
    kind, spec, about = str(document["kind"]), _dict(document.get("spec")), _dict(document.get("metadata"))
    owner = "/".join((kind.lower(), _word(about.get("namespace"), "default"), _word(about.get("name"), "?")))
    policy, retries = _policy(kind, spec, pod)
    for key in ("containers", "initContainers"):
        for container in _list(pod.get(key)):
            if not isinstance(container, dict):
                continue
            is_sidecar = key == "initContainers" and container.get("restartPolicy") == "Always"
            if key == "initContainers" and not is_sidecar:
                continue  # it ends before the pod begins
            yield Workload(
                Starter.KUBELET,
                f"{owner}/{_word(container.get('name'), '?')}",
                path,
                "Always" if is_sidecar else policy,
                None if is_sidecar else retries,
                " ".join(_word(word) for word in (*_list(container.get("command")), *_list(container.get("args")))),
                _word(container.get("image")),
                _pod_variables(container),
                is_sidecar=is_sidecar,
                is_stopped=spec.get("replicas") == 0 or spec.get("suspend") is True,
            )


def _policy(kind: str, spec: dict[Any, Any], pod: dict[Any, Any]) -> tuple[str, int | None]:
    if kind == "CronJob":
        return f"schedule {_word(spec.get('schedule'), '?')}", None
    said = _word(pod.get("restartPolicy"), "Always")
    if kind != "Job":
        return said, None
    limit = spec.get("backoffLimit", 6)
    return said, limit if isinstance(limit, int) else None


def _pod_variables(container: dict[Any, Any]) -> dict[str, bool]:
    """Those from elsewhere (a secret, a field) count as given: whoever wrote the manifest means them."""
    return {
        _word(item.get("name")): bool(item.get("value")) or bool(item.get("valueFrom"))
        for item in _list(container.get("env"))
        if isinstance(item, dict)
    }


def _compose(services: dict[Any, Any], path: str) -> Iterator[Workload]:
    for name, service in services.items():
        if not isinstance(service, dict):
            continue
        said = service.get("restart", "no")
        policy, _, retries = ("no" if said is False else _word(said)).partition(":")
        command = service.get("command", "")
        environment = service.get("environment")
        yield Workload(
            Starter.COMPOSE,
            f"compose/{_word(name)}",
            path,
            policy,
            int(retries) if retries.isdecimal() else None,
            " ".join(_word(word) for word in command) if isinstance(command, list) else _word(command),
            _word(service.get("image")),
            _compose_variables(environment),
            is_stopped=bool(_list(service.get("profiles"))),
        )


def _compose_variables(said: Any) -> dict[str, bool]:
    if isinstance(said, dict):
        return {_word(name): value not in (None, "") for name, value in said.items()}
    pairs = (_word(line).partition("=") for line in _list(said))
    return {name: bool(value) for name, _, value in pairs}


def variables_of(lines: object) -> dict[str, bool]:
    """`NAME=value` lines, as Docker keeps them."""
    return _compose_variables(lines)


def _dict(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _word(value: Any, otherwise: str = "") -> str:
    """Printable, and no longer than anybody reads."""
    return otherwise if value is None else shown_text(str(value))[:300]
