# SPDX-License-Identifier: Apache-2.0
"""What is inside the one file: every component with version, licence, licence text and origin; as CycloneDX 1.6 for others."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from tools.onefile.pins import SOURCES, WHEELS, ZIG, Source
from tools.onefile.steps import Made

MUSL = "1.2.5"


class Component(NamedTuple):
    name: str
    version: str
    licence: str
    text: str
    origin: str
    """A package URL."""
    sha256: str = ""
    """Of what was downloaded."""

    def as_told(self) -> dict[str, str]:
        """As `zombiescope licenses` reads it."""
        return {"name": self.name, "version": self.version, "licence": self.licence, "text": self.text}


def own_component(top: Path, version: str) -> Component:
    return Component("zombiescope", version, "Apache-2.0", _text(top / "LICENSE"), f"pkg:pypi/zombiescope@{version}")


def vendored_components(top: Path) -> list[Component]:
    """Libraries that the page brings along; their texts are in the package already."""
    listed = top / "src" / "zombiescope" / "web" / "static" / "vendor" / "manifest.json"
    if not listed.exists():
        return []
    parts = json.loads(listed.read_text(encoding="utf-8"))["libraries"]
    return [
        Component(part["name"], part["version"], part["licence"], "", f"pkg:npm/{part['name']}@{part['version']}")
        for part in parts
    ]


def components(sources: dict[str, Made], compiler: Path, wheels: Path) -> list[Component]:
    found = [_of_source(source, sources[source.name].folder) for source in SOURCES]
    origin = f"pkg:pypi/ziglang@{ZIG}"
    library = compiler / "ziglang" / "lib"
    found += [
        Component("musl", MUSL, "MIT", _text(library / "libc" / "musl" / "COPYRIGHT"), origin),
        Component("zig compiler-rt", ZIG, "MIT", _text(compiler / "ziglang" / "LICENSE"), origin),
    ]
    for wheel in WHEELS:
        about = next(wheels.glob(f"{wheel.name.replace('-', '_')}-*.dist-info"))
        texts = [_text(path) for path in sorted((about / "licenses").rglob("*")) if path.is_file()]
        assert texts, f"{wheel.name} brings no licence text"
        origin = f"pkg:pypi/{wheel.name}@{wheel.version}"
        found.append(Component(wheel.name, wheel.version, wheel.licence, "\n".join(texts), origin, wheel.hashes[0]))
    return sorted(found)


def _of_source(source: Source, folder: Path) -> Component:
    text = _text(folder / source.text)
    if source.name == "python3.13":  # and of what it includes: mimalloc, HACL*, libmpdec and others
        text += "\n" + _text(folder / "Doc" / "license.rst")
    name = "CPython" if source.name == "python3.13" else source.name
    origin = f"pkg:deb/debian/{source.name}@{source.version}?arch=source"
    return Component(name, source.version, source.licence, text, origin, source.sha256)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def bill_of_materials(own: Component, architecture: str, sha256: str, parts: list[Component]) -> dict[str, Any]:
    """Deterministic: the serial number is that of the content, and no time is told."""
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, sha256)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "zombiescope",
                "name": "zombiescope",
                "version": own.version,
                "description": f"the one-file build for {architecture}",
                "licenses": [{"expression": own.licence}],
                "hashes": [{"alg": "SHA-256", "content": sha256}],
            }
        },
        "components": [_listed(part) for part in parts],
        "dependencies": [{"ref": "zombiescope", "dependsOn": [part.name for part in parts]}],
    }


def _listed(part: Component) -> dict[str, Any]:
    listed: dict[str, Any] = {
        "type": "library",
        "bom-ref": part.name,
        "name": part.name,
        "version": part.version,
        "licenses": [{"expression": part.licence}],
        "purl": part.origin,
    }
    if part.sha256:
        # Of what was downloaded, not of a file inside.
        listed["externalReferences"] = [
            {"type": "distribution", "url": part.origin, "hashes": [{"alg": "SHA-256", "content": part.sha256}]}
        ]
    return listed
