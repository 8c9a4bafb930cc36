# SPDX-License-Identifier: Apache-2.0
"""Made by somebody else than who wrote the rules: modules with a dictionary `SCENARIOS`, recordings, labels (../README.md)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from zombiescope.diagnosis.case import Case

_FOLDER = Path(__file__).parent
_MODULES = [file.stem for file in sorted(_FOLDER.glob("*.py")) if file.stem != "__init__"]
HELD_OUT: dict[str, Callable[[], Case]] = {
    name: build
    for module in _MODULES
    for name, build in importlib.import_module(f"{__name__}.{module}").SCENARIOS.items()
}
HELD_OUT_RECORDED = tuple(sorted(_FOLDER.glob("*.tar.gz")))
