# SPDX-License-Identifier: Apache-2.0
"""Podman's quadlets: `NAME.container` and `NAME.kube` files of which its generator makes services at boot.

The generator is not run: the service is put together as it would be, as far as an audit needs it (podman-systemd.unit(5)).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from zombiescope.facts.names import shown
from zombiescope.facts.units import Link, Setting, UnitFile, UnitFiles
from zombiescope.host.files import Files, Kind
from zombiescope.probes.unit_layout import is_unit_name, parse_settings

FOLDERS = (b"/run/containers/systemd", b"/etc/containers/systemd", b"/usr/share/containers/systemd")
_KINDS = {b"container": ("Container", "Image"), b"kube": ("Kube", "Yaml")}
_RELATIONS = {"WantedBy": "Wants", "RequiredBy": "Requires", "UpheldBy": "Upholds"}
_DEPTH = 3


def with_quadlets(units: UnitFiles, files: Files) -> UnitFiles:
    """Adds the services that the generator would make, and the links. What it has made already stays as it is."""
    added: dict[str, UnitFile] = {}
    links: list[Link] = []
    for path in _quadlets(files):
        unit = _service(files, path)
        if unit is None or unit.name in units.units or unit.name in added:
            continue
        added[unit.name] = unit
        for key, relation in _RELATIONS.items():
            links += [Link(owner, relation, unit.name, shown(path)) for owner in unit.words("Install", key)]
    if not added:
        return units
    return dataclasses.replace(units, units={**units.units, **added}, links=(*units.links, *links))


def _quadlets(files: Files) -> Iterator[bytes]:
    pending = [(folder, 0) for folder in reversed(FOLDERS)]
    while pending:
        folder, depth = pending.pop()
        for name in sorted(files.list(folder)):
            path = folder + b"/" + name
            entry = files.entry(path)
            if entry is not None and entry.kind is Kind.FOLDER and depth < _DEPTH and not name.endswith(b".d"):
                pending.append((path, depth + 1))
            elif name.rpartition(b".")[2] in _KINDS:
                yield path


def _service(files: Files, path: bytes) -> UnitFile | None:
    stem, _, kind = path.rpartition(b"/")[2].rpartition(b".")
    section, key = _KINDS[kind]
    data = files.read(path)
    name = stem.decode("utf-8", "replace")
    origin = shown(path)
    settings, problems = parse_settings(data or b"", origin)
    said = {(setting.section, setting.key): setting.value for setting in settings}
    name = said.get(("Quadlet", "ServiceName")) or said.get((section, "ServiceName")) or name
    if not is_unit_name(f"{name}.service"):
        files.refuse(path, "not a name that a unit can have: podman ignores it")
        return None
    for folder in (path + b".d",):
        for file in sorted(files.list(folder)):
            if file.endswith(b".conf"):
                settings += parse_settings(files.read(folder + b"/" + file) or b"", shown(folder + b"/" + file))[0]
    verb = "run" if kind == b"container" else "kube play"
    start = Setting("Service", "ExecStart", f"/usr/bin/podman {verb} {said.get((section, key), '')}", origin)
    made = (Setting("Service", "Delegate", "yes", origin), start)
    if data is None:
        problems.append(f"{origin}: cannot be read")
    is_vendor = path.startswith(b"/usr/")
    return UnitFile(
        f"{name}.service", origin, "generated", (*settings, *made), from_vendor=is_vendor, problems=tuple(problems)
    )
