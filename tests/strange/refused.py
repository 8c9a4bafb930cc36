# SPDX-License-Identifier: Apache-2.0
"""Runs a command for which bpf(2) and perf_event_open(2) fail with EPERM, as under a container's default seccomp profile."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.kernel.confined import refuse

if __name__ == "__main__":
    refuse(errno.EPERM, "bpf", "perf_event_open")
    os.execvp(sys.argv[1], sys.argv[1:])
