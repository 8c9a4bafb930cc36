# SPDX-License-Identifier: Apache-2.0
"""What a job takes into a machine: the package, its kernel tests, the stories, and a `run` script for the cell."""

from __future__ import annotations

import compileall
import importlib.util
import py_compile
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.vm.cells import Cell
from tests.vm.image import SITE
from tests.vm.recipe import REPOSITORY

_CARRIED = (
    "src",
    "tests/kernel",
    "tests/vm/stories",
    "tests/scenarios",
    "tests/strange",
    "tests/vm/cells.py",
    "tests/vm/mutations.py",
    "docs/reference/kernels.json",
    "pyproject.toml",
)
_LIBRARIES = ("prometheus_client", "h11")
"""Pure Python, from the surroundings of the one who stages: the machines' Debian has none that the agent could use."""
_NOT_CARRIED = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache")


def stage(folder: Path, cell: Cell, command: Sequence[str]) -> Path:
    """Fills `folder` with a job that runs `command` in a copy of this checkout inside the cell."""
    shutil.rmtree(folder, ignore_errors=True)
    checkout = folder / "checkout"
    for name in _CARRIED:
        source, target = REPOSITORY / name, checkout / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=_NOT_CARRIED)
        elif source.exists():
            shutil.copy(source, target)
    for source in (REPOSITORY / "tests").glob("*.py"):
        shutil.copy(source, checkout / "tests" / source.name)
    for name in _LIBRARIES:
        found = importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations:
            shutil.copytree(found.submodule_search_locations[0], checkout / name, ignore=_NOT_CARRIED)
    # Byte code made here saves seconds there; a guest with another Python ignores it.
    compileall.compile_dir(checkout, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    script = folder / "run"
    script.write_text(_script(cell, command))
    script.chmod(0o755)
    return folder


def _script(cell: Cell, command: Sequence[str]) -> str:
    environment = {
        "PYTHONPATH": f"/job/checkout/src:/job/checkout:{SITE}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # three seconds of imports under emulation
        "ZOMBIESCOPE_VM_CELL": cell.name,
        "ZOMBIESCOPE_REQUIRE": "kernel",
    }
    lines = ["#!/bin/sh", "set -e"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    if cell.swap_megabytes:
        lines += ['mkswap "$VM_SPARE_DISK" >/dev/null', 'swapon "$VM_SPARE_DISK"']
    switch = "/sys/kernel/mm/lru_gen/enabled"
    lines += [f"if [ -e {switch} ]; then echo {'y' if cell.mglru else 'n'} >{switch}; fi"]
    lines += ["cd /job/checkout", f"exec {shlex.join(command)}"]
    return "\n".join(lines) + "\n"
