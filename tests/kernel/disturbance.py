# SPDX-License-Identifier: Apache-2.0
"""Whether somebody else had a hand in a test: other cgroups came or went meanwhile, or the CPUs were not to be had.

A failure then is looked at once more, and said; without such a cause it stands. Inside a machine of the matrix there is nobody
else, and nothing is ever run again.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.kernel.command import IN_MACHINE

_PRESSURE = Path("/proc/pressure/cpu")
_STARVED_SHARE = 0.5
_TOPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
_OURS = f"-{os.getpid()}-"
"""Every cgroup of these tests has the process in its name."""


class Disturbance:
    """What there is before a test; `cause` compares it with what there is after."""

    def __init__(self) -> None:
        self._directories = _others()
        self._waited = _waited_microseconds()
        self._began = time.monotonic()

    def cause(self) -> str:
        """Why the test may have failed through no fault of ours; empty when nothing was seen."""
        if IN_MACHINE:
            return ""
        changed = _others() ^ self._directories
        if changed:
            return f"{len(changed)} cgroups of others came or went, {min(changed)} among them"
        share = (_waited_microseconds() - self._waited) / 1e6 / max(time.monotonic() - self._began, 0.001)
        return f"for {share:.0%} of the time somebody waited for a CPU" if share > _STARVED_SHARE else ""


def _others() -> frozenset[str]:
    top = next((path for path in _TOPS if (path / "cgroup.procs").exists()), None)
    found = (folder for folder, _, _ in os.walk(top)) if top is not None else iter(())
    return frozenset(
        folder for folder in found if _OURS not in folder + "-" and not folder.endswith("/zombiescope-lab")
    )


def _waited_microseconds() -> int:
    try:
        return int(_PRESSURE.read_text().split("total=")[1].split()[0])
    except (OSError, IndexError):
        return 0
