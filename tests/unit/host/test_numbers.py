# SPDX-License-Identifier: Apache-2.0
"""numpy is loaded without threads that nobody needs, unless somebody chose them; children inherit nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_ASK = (
    "import os; from zombiescope.host.numbers import load_numpy; load_numpy(); import sys;"
    "print(len(os.listdir('/proc/self/task')), os.environ.get('OPENBLAS_NUM_THREADS'), 'numpy' in sys.modules)"
)


@pytest.mark.parametrize(("given", "kept"), [(None, "None"), ("1", "1")])
def test_numpy_starts_no_threads_and_the_environment_stays(given: str | None, kept: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    if given is not None:
        environment["OPENBLAS_NUM_THREADS"] = given
    told = subprocess.run([sys.executable, "-c", _ASK], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["1", kept, "True"]


_LATE = (
    "import warnings; warnings.simplefilter('error');"
    "from zombiescope.host.numbers import defer_numpy; defer_numpy(); import sys; import numpy as before;"
    "assert 'numpy.linalg' not in sys.modules; kind = before.int64; import numpy as after;"
    "print(after.int64 is kind, hasattr(before, 'no_such_name'), before.testing is after.testing, before.int64 is kind)"
)


def test_numpy_put_off_is_loaded_once_whatever_is_asked_of_it() -> None:
    """What it makes only when asked, such as `testing`, and what it does not have, are no reason to load it again."""
    told = subprocess.run([sys.executable, "-c", _LATE], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["True", "False", "True", "True"]
