# SPDX-License-Identifier: Apache-2.0
"""From the interpreter to dist/: wheels, our package, the licences of everything inside, and the bill of materials beside it."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from pathlib import Path

from tools.onefile.bill import bill_of_materials, components, own_component, vendored_components
from tools.onefile.fetch import unpack_wheel
from tools.onefile.pins import WHEELS
from tools.onefile.steps import HERE, Cache, Made, run

TOP = HERE.parents[1]


def make_wheels(cache: Cache) -> Made:
    def make(folder: Path) -> None:
        for wheel in WHEELS:
            unpack_wheel(wheel, cache.folder / "downloads", folder)

    return cache.step("wheels", [], [value for wheel in WHEELS for value in wheel.hashes], make)


def own_version() -> str:
    text = (TOP / "src" / "zombiescope" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert found
    return found[1]


class Packer:
    """Packs any architecture with the interpreter of this machine: code is the same for all."""

    def __init__(self, cache: Cache, python: Made, sources: dict[str, Made], compiler: Made) -> None:
        self._cache, self._python = cache, python
        self._wheels = make_wheels(cache)
        self._parts = components(sources, compiler.folder, self._wheels.folder)

    def pack(self, architecture: str, core: Made, out: Path) -> Path:
        out.mkdir(parents=True, exist_ok=True)
        target = out / f"zombiescope-{architecture}"
        with tempfile.TemporaryDirectory(dir=out, prefix=".onefile-") as scratch:
            fresh = self._packed(Path(scratch), core)
            fresh.chmod(0o755)
            fresh.replace(target)
        self._write_bill(target, architecture)
        return target

    def _packed(self, scratch: Path, core: Made) -> Path:
        told = scratch / "told"
        (told / "zombiescope" / "data").mkdir(parents=True)
        listed = [part.as_told() for part in (own_component(TOP, own_version()), *self._parts)]
        (told / "zombiescope" / "data" / "components.json").write_text(json.dumps(listed, indent=1), encoding="utf-8")
        order = {
            "core": str(core.folder / "core"),
            "stdlib": str(self._python.folder / "source" / "Lib"),
            "folders": [str(TOP / "src"), str(self._wheels.folder), str(told)],
            "tail": str(HERE / "inside" / "tail.py"),
            "out": str(scratch / "packed"),
        }
        asked = scratch / "order.json"
        asked.write_text(json.dumps(order), encoding="utf-8")
        run([self._python.folder / "build" / "python", "-I", "-B", HERE / "pack.py", asked], scratch)
        return scratch / "packed"

    def _write_bill(self, target: Path, architecture: str) -> None:
        digest = hashlib.sha256(target.read_bytes()).hexdigest()
        own = own_component(TOP, own_version())
        bill = bill_of_materials(own, architecture, digest, [*self._parts, *vendored_components(TOP)])
        beside = target.with_name(target.name + ".cdx.json")
        beside.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
