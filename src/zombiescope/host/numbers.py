# SPDX-License-Identifier: Apache-2.0
"""numpy without the threads of its library for matrices, of which we have none: starting them takes half as long as numpy."""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_THREADS = "OPENBLAS_NUM_THREADS"


def load_numpy() -> None:
    """Before anything else loads it; where somebody chose a number of threads, that holds."""
    if os.environ.get(_THREADS):
        import_module("numpy")
        return
    os.environ[_THREADS] = "1"
    try:
        import_module("numpy")
    finally:
        del os.environ[_THREADS]  # our children choose for themselves


class _Deferred(ModuleType):
    """Stands for numpy until somebody asks it for something: an import by the scanner never does."""

    def __getattr__(self, name: str) -> object:
        if sys.modules.get("numpy") is self:
            del sys.modules["numpy"]
            load_numpy()
            self.__dict__.update(sys.modules["numpy"].__dict__)
        # What numpy itself makes when it is asked, or does not have: it is loaded once only.
        return getattr(sys.modules["numpy"], name)


def defer_numpy() -> None:
    """Modules that are loaded from here on import it, and pay for it when they first use it."""
    if "numpy" not in sys.modules:
        stands_for = _Deferred("numpy")
        stands_for.__spec__ = find_spec("numpy")
        sys.modules["numpy"] = stands_for
