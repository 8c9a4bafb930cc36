# SPDX-License-Identifier: Apache-2.0
"""A program that is kept running: started again when it ends, less and less often, and ended with us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zombiescope.host import kept_child
from zombiescope.host.kept_child import KeptChild

WAIT = [sys.executable, "-c", "import time; time.sleep(600)"]


def child_of(kept: KeptChild) -> int:
    assert kept._process is not None
    return kept._process


def ended(pid: int) -> None:
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT) is None:
        time.sleep(0.01)


def test_one_that_ends_is_started_again_after_a_pause() -> None:
    kept = KeptChild([sys.executable, "-c", "raise SystemExit(3)"])
    kept.look(0.0)
    assert (kept.starts, kept.why) == (1, "")
    pauses = []
    now = 0.0
    for _ in range(3):
        ended(child_of(kept))
        kept.look(now)
        assert kept.why.startswith("it ended with exit code 3; it is started again in ")
        pauses.append(kept._next - now)
        kept.look(kept._next - 0.1)
        assert kept._process is None
        now = kept._next
        kept.look(now)
        assert kept.why == ""
    assert pauses == [20, 40, 80]
    assert kept.starts == 4
    kept.close()


def test_one_that_ran_long_gets_a_new_beginning() -> None:
    kept = KeptChild(WAIT)
    kept.look(0.0)
    os.kill(child_of(kept), signal.SIGKILL)
    ended(child_of(kept))
    kept.look(1000.0)
    assert kept.why == "signal 9 ended it; it is started again in 10 s"
    kept.close()


def test_it_ends_when_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also at once after its start, by a parent that has handlers of its own."""
    monkeypatch.setattr(kept_child, "_END_SECONDS", 600.0)
    own = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        for _ in range(10):
            kept = KeptChild(WAIT)
            kept.look(0.0)
            pid = child_of(kept)
            kept.close()
            assert not os.path.exists(f"/proc/{pid}")
    finally:
        signal.signal(signal.SIGTERM, own)


def test_a_parent_that_is_killed_takes_it_along(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom zombiescope.host.kept_child import KeptChild\n"
        f"kept = KeptChild({WAIT!r})\nkept.look(0.0)\nPath(sys.argv[1]).write_text(str(kept._process))\ntime.sleep(600)\n"
    )
    told = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, "-c", script, str(told)])
    while not told.exists() or not told.read_text():
        time.sleep(0.02)
    pid = int(told.read_text())
    # The child asks for the signal before it becomes the program.
    while b"time.sleep" not in Path(f"/proc/{pid}/cmdline").read_bytes().replace(script.encode(), b""):
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    while os.path.exists(f"/proc/{pid}/exe") and Path(f"/proc/{pid}/cmdline").read_bytes():
        time.sleep(0.02)
