# SPDX-License-Identifier: Apache-2.0
"""Workloads that a tree declares beside systemd's units: supervisord's programs, containers of Docker and podman, static pods; and
those of Kubernetes manifests and compose files: what each container is, who restarts it, how often.

JSON is read by itself; YAML by PyYAML's safe loader, where that is installed (`zombiescope[manifests]`). Merged keys are counted: a
few hundred bytes of them can stand for gigabytes.
"""

import configparser
import fnmatch
import json
import posixpath
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, shown, shown_text
from zombiescope.facts.units import Declared, Starter, Workload
from zombiescope.host.files import Files, Kind

_SUPERVISORD = (b"/etc/supervisor/supervisord.conf", b"/etc/supervisord.conf", b"/etc/supervisor.conf")
_SUPERVISORD_FOLDERS = ((b"/etc/supervisor/conf.d", b".conf"), (b"/etc/supervisord.d", b".ini"))
_DOCKER = b"/var/lib/docker/containers"
_PODMAN = b"/var/lib/containers/storage/overlay-containers/containers.json"
_PODS = (
    b"/etc/kubernetes", b"/var/lib/rancher/k3s/server/manifests", b"/var/lib/rancher/k3s/agent/pod-manifests",
    b"/var/lib/rancher/rke2/server/manifests", b"/var/lib/rancher/rke2/agent/pod-manifests", b"/etc/kubelet.d",
)  # fmt: skip
_PAM = (b"/etc/pam.d/cron", b"/etc/pam.d/crond")
_YAML = (b".yaml", b".yml", b".json")
_MOST_FILES = 2_000
_DEPTH = 4
"""Of folders in folders, and of lists in lists."""
FACT = "workloads"
_HINT = "pip install 'zombiescope[manifests]', or give manifests as JSON"


def read_workloads(files: Files) -> Declared:
    gaps: list[Gap] = []
    workloads = [*_supervisord(files, gaps), *_docker(files, gaps), *_podman(files, gaps)]
    workloads += read_manifests(files, _PODS, gaps)
    return Declared(tuple(workloads), tuple(gaps), _cron_makes_sessions(files))


def read_manifests(files: Files, folders: Iterable[bytes], gaps: list[Gap]) -> Iterator[Workload]:
    """Every manifest below these folders. What cannot be read is a gap: without PyYAML, one for all."""
    without_yaml: list[bytes] = []
    for number, path in enumerate(_manifest_files(files, folders)):
        if number >= _MOST_FILES:
            gaps.append(Gap(FACT, f"more than {_MOST_FILES:,} manifests: the rest was not read"))
            break
        if (data := files.read(path)) is None:
            gaps.append(Gap(FACT, f"{shown(path)} cannot be read"))
            continue
        try:
            yield from parse_manifest(data, shown(path))
        except ManifestError as error:
            if str(error) == NO_YAML:
                without_yaml.append(path)
            else:
                gaps.append(Gap(FACT, f"{shown(path)}: {error}"))
    if without_yaml:
        what = f"{counted(len(without_yaml), 'manifest')}, such as {shown(without_yaml[0])}"
        gaps.append(Gap(FACT, f"{what}: {NO_YAML}", _HINT))


def _manifest_files(files: Files, folders: Iterable[bytes]) -> Iterator[bytes]:
    pending = [(folder, 0) for folder in folders]
    while pending:
        folder, depth = pending.pop()
        for name in sorted(files.list(folder)):
            path = folder.rstrip(b"/") + b"/" + name
            entry = files.entry(path)
            if entry is None or name.startswith(b"."):
                continue
            if entry.kind is Kind.FOLDER and depth < _DEPTH:
                pending.append((path, depth + 1))
            elif entry.kind is not Kind.FOLDER and name.lower().endswith(_YAML):
                yield path


def _supervisord(files: Files, gaps: list[Gap]) -> Iterator[Workload]:
    paths = [path for path in _SUPERVISORD if files.exists(path)]
    for folder, suffix in _SUPERVISORD_FOLDERS:
        paths += [folder + b"/" + name for name in sorted(files.list(folder)) if name.endswith(suffix)]
    seen: set[bytes] = set()
    while paths:
        path = paths.pop(0)
        if path in seen or len(seen) >= _MOST_FILES:
            continue
        seen.add(path)
        if (data := files.read(path)) is None:
            gaps.append(Gap(FACT, f"{shown(path)} cannot be read"))
            continue
        said = configparser.RawConfigParser(strict=False, inline_comment_prefixes=(";", " #"), allow_no_value=True)
        try:
            said.read_string(data.decode("utf-8", "replace"))
        except configparser.Error as error:
            gaps.append(Gap(FACT, f"{shown(path)}: {shown(str(error).partition(chr(10))[0].encode())}"))
            continue
        paths += _included(files, path, said.get("include", "files", fallback="") or "")
        for section in said.sections():
            kind, colon, name = section.partition(":")
            if kind in ("program", "fcgi-program", "eventlistener") and colon:
                yield _program(shown(name.strip().encode("utf-8", "replace")), shown(path), said[section])


def _included(files: Files, path: bytes, patterns: str) -> list[bytes]:
    found: list[bytes] = []
    for pattern in patterns.encode("utf-8", "replace").split():
        folder, name = posixpath.split(posixpath.normpath(posixpath.join(posixpath.dirname(path), pattern)))
        found += [folder + b"/" + each for each in sorted(files.list(folder)) if fnmatch.fnmatchcase(each, name)]
    return found


def _program(name: str, path: str, said: configparser.SectionProxy) -> Workload:
    word = (said.get("autorestart") or "unexpected").strip().lower()
    policy = (
        "false" if word in ("false", "no", "off", "0") else ("true" if word in ("true", "yes", "on", "1") else word)
    )
    is_off = (said.get("autostart") or "true").strip().lower() in ("false", "no", "off", "0")
    command = shown((said.get("command") or "").encode("utf-8", "replace"))
    return Workload(Starter.SUPERVISORD, f"supervisord/{name}", path, policy, command=command, is_stopped=is_off)


def _docker(files: Files, gaps: list[Gap]) -> Iterator[Workload]:
    for name in sorted(files.list(_DOCKER)):
        folder = _DOCKER + b"/" + name
        about, host = (_json(files, folder + b"/" + file, gaps) for file in (b"config.v2.json", b"hostconfig.json"))
        if not isinstance(about, dict):
            continue
        config, state = _dict(about.get("Config")), _dict(about.get("State"))
        policy = _dict(_dict(host).get("RestartPolicy"))
        retries, word = policy.get("MaximumRetryCount"), str(policy.get("Name") or "no")
        path = [about.get("Path"), *_list(about.get("Args"))]
        label = shown_text(str(about.get("Name") or "").lstrip("/")) or shown(name[:12])
        yield Workload(
            Starter.DOCKER,
            f"docker/{label}",
            shown(folder),
            shown_text(word),
            retries if isinstance(retries, int) and retries > 0 else None,
            shown_text(" ".join(str(part) for part in path if part)),
            shown_text(str(config.get("Image") or "")),
            _variables(config.get("Env")),
            container_id=shown(name),
            is_stopped=word == "unless-stopped"
            and state.get("Running") is False
            and bool(about.get("HasBeenManuallyStopped")),
        )


def _podman(files: Files, gaps: list[Gap]) -> Iterator[Workload]:
    """Names and images only: restart policies are in podman's database."""
    if not files.exists(_PODMAN):
        return
    for row in _dicts(_json(files, _PODMAN, gaps)):
        names = _list(row.get("names"))
        name = str(names[0]) if names else str(row.get("id"))[:12]
        yield Workload(
            Starter.PODMAN,
            f"podman/{shown_text(name)}",
            shown(_PODMAN),
            image=shown_text(_image_name(row)),
            container_id=shown_text(str(row.get("id"))),
        )


def _image_name(row: dict[str, Any]) -> str:
    try:
        about = json.loads(row.get("metadata") or "{}")
    except (ValueError, TypeError, RecursionError):
        about = {}
    return str(_dict(about).get("image-name") or "")


def _json(files: Files, path: bytes, gaps: list[Gap]) -> Any:
    if (data := files.read(path)) is None:
        gaps.append(Gap(FACT, f"{shown(path)} cannot be read"))
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        gaps.append(Gap(FACT, f"{shown(path)}: not JSON"))
        return None


def _cron_makes_sessions(files: Files) -> bool:
    pending, seen = list(_PAM), set[bytes]()
    while pending and len(seen) < 20:
        if (path := pending.pop()) in seen:
            continue
        seen.add(path)
        for line in (files.read(path) or b"").splitlines():
            words = line.split(b"#")[0].split()
            if len(words) >= 2 and words[0] == b"@include":
                pending.append(b"/etc/pam.d/" + words[1].rpartition(b"/")[2])
            elif len(words) >= 3 and words[0].lstrip(b"-") == b"session":
                if words[1] in (b"include", b"substack"):
                    pending.append(b"/etc/pam.d/" + words[2].rpartition(b"/")[2])
                elif any(word.endswith(b"pam_systemd.so") for word in words):
                    return True
    return False


MANIFEST_BYTES, MOST_WORKLOADS = 1 << 20, 2_000
"""Of one file."""
_MOST_MERGED = 20_000
_TEMPLATED = {"DaemonSet", "Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job"}
NO_YAML = "PyYAML is not installed"


class ManifestError(Exception):
    """Why a manifest could not be read."""


def parse_manifest(data: bytes, path: str) -> list[Workload]:
    """Every workload that a file declares; raises ManifestError."""
    declared = (workload for document in _documents(data) for workload in _workloads(document, path))
    found = list(islice(declared, MOST_WORKLOADS + 1))
    if len(found) > MOST_WORKLOADS:
        raise ManifestError(f"more than {MOST_WORKLOADS:,} workloads")
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
        yield from _containers(document, _pod_of(_dict(document.get("spec")).get("jobTemplate")), path)


def _pod_of(document: Any) -> dict[Any, Any]:
    return _dict(_dict(_dict(_dict(document).get("spec")).get("template")).get("spec"))


def _containers(document: dict[Any, Any], pod: dict[Any, Any], path: str) -> Iterator[Workload]:
    kind, spec, about = str(document["kind"]), _dict(document.get("spec")), _dict(document.get("metadata"))
    owner = "/".join((kind.lower(), _word(about.get("namespace"), "default"), _word(about.get("name"), "?")))
    policy, retries = _policy(kind, spec, pod)
    for key in ("containers", "initContainers"):
        for container in _dicts(pod.get(key)):
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
        for item in _dicts(container.get("env"))
    }


def _compose(services: dict[Any, Any], path: str) -> Iterator[Workload]:
    for name, service in services.items():
        if not isinstance(service, dict):
            continue
        said = service.get("restart", "no")
        policy, _, retries = ("no" if said is False else _word(said)).partition(":")
        command = service.get("command", "")
        yield Workload(
            Starter.COMPOSE,
            f"compose/{_word(name)}",
            path,
            policy,
            int(retries) if retries.isdecimal() else None,
            " ".join(_word(word) for word in command) if isinstance(command, list) else _word(command),
            _word(service.get("image")),
            _variables(service.get("environment")),
            is_stopped=bool(_list(service.get("profiles"))),
        )


def _variables(said: Any) -> dict[str, bool]:
    """A table, or `NAME=value` lines, as Docker keeps them."""
    if isinstance(said, dict):
        return {_word(name): value not in (None, "") for name, value in said.items()}
    pairs = (_word(line).partition("=") for line in _list(said))
    return {name: bool(value) for name, _, value in pairs}


def _dict(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: Any) -> list[dict[Any, Any]]:
    return [each for each in _list(value) if isinstance(each, dict)]


def _word(value: Any, otherwise: str = "") -> str:
    """Printable, and no longer than anybody reads."""
    return otherwise if value is None else shown_text(str(value))[:300]
