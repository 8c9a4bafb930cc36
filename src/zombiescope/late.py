# SPDX-License-Identifier: Apache-2.0
"""Rooms whose modules are loaded when they are named: for what only some answers need. All else is imported at the top."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType


def late(room: str) -> Callable[[str], ModuleType]:
    """The `__getattr__` of a room: whoever names `presenters.scan_text` loads it then, and not before."""

    def load(name: str) -> ModuleType:
        if name.startswith("__"):
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return import_module(f"{room}.{name}")

    return load
