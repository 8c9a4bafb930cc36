# SPDX-License-Identifier: Apache-2.0
"""Programs of this machine that may be asked: a fixed list, fixed arguments, no shell, a time limit, no pager, plain words."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import NamedTuple

_ALLOWED = ("systemctl", "journalctl")
_OUTPUT_LIMIT = 32 << 20
RESTART_SCHEDULED = "5eb03494b6584870a536b337290809b3"
"""The journal's id of the message with which systemd restarts a unit by itself."""


class Ran(NamedTuple):
    status: int
    output: bytes
    complaint: str


def ask_program(name: str, *arguments: str, seconds: float = 60.0) -> Ran | None:
    """What it printed; None where it is not installed. Raises OSError when it did not end in time."""
    assert name in _ALLOWED
    place = shutil.which(name)
    if place is None:
        return None
    surroundings = {**os.environ, "LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
    try:
        run = subprocess.run([place, *arguments], capture_output=True, timeout=seconds, env=surroundings, check=False)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(110, f"{name} did not answer within {seconds:.0f} s") from error
    return Ran(run.returncode, run.stdout[:_OUTPUT_LIMIT], run.stderr.decode("utf-8", "replace").strip())
