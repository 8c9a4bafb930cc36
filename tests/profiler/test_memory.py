# SPDX-License-Identifier: Apache-2.0
"""Memory of an import: what is freed is used again, and a size that cannot be had is no error."""

from __future__ import annotations

import subprocess
import sys

FAULTS = """
import ctypes, resource, sys
from zombiescope.profiler.files.reading import prepare
if sys.argv[1] == "prepared":
    assert prepare(64 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    block = bytearray(20 << 20)
    block[:] = b"x" * len(block)
    del block
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    run = subprocess.run([sys.executable, "-c", FAULTS, how], check=True, capture_output=True, text=True)
    return int(run.stdout)


def test_freed_memory_is_used_again() -> None:
    assert faults("prepared") * 4 < faults("plain")


def test_a_size_that_cannot_be_had_is_no_error() -> None:
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
    code = (
        limited
        + "from zombiescope.profiler.files.reading import prepare\nprint(prepare(1 << 50), len(bytearray(1 << 20)))"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "True 1048576\n"
