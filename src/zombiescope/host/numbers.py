# SPDX-License-Identifier: Apache-2.0
"""numpy without the threads of its library for matrices, of which we have none: starting them takes half as long as numpy."""

from __future__ import annotations

import os
from importlib import import_module

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
