# SPDX-License-Identifier: Apache-2.0
"""What a child says arrives whole; what it does wrong ends with it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from zombiescope.host import children
from zombiescope.host.children import KeptChild, ShortLived


def outcome(work: Callable[[], bytes], memory: int | None = None) -> bytes | None:
    child = ShortLived(work, memory)
    while not child.collect():
        select.select([child.descriptor], [], [], 30)
    return child.end()


def failing() -> bytes:
    raise KeyError("a bug")


def asleep() -> bytes:
    time.sleep(60)
    return b"late"


def killer_score() -> bytes:
    with open("/proc/self/oom_score_adj", "rb") as file:
        return file.read()


def test_it_says_everything_or_nothing() -> None:
    assert outcome(lambda: b"x" * 1_000_000) == b"x" * 1_000_000
    assert outcome(failing) is None
    assert outcome(lambda: b"x" * (5 << 20)) is None, "more than it may say"
    assert outcome(killer_score) == b"1000\n", "the first to go"


MUCH = 4 << 30
"""More than a large test process could still have at hand; nobody touches it."""


def test_it_has_no_more_memory_than_it_was_given() -> None:
    def hungry() -> bytes:
        try:
            return b"%d" % len(bytearray(MUCH))
        except MemoryError:
            return b"refused"

    assert outcome(hungry, 64 << 20) == b"refused"
    assert outcome(hungry) == b"%d" % MUCH
    assert outcome(lambda: b"%d" % len(bytearray(16 << 20)), 64 << 20) == b"%d" % (16 << 20)


def test_it_is_ended_when_it_takes_too_long_and_when_somebody_else_ends_it() -> None:
    before = len(os.listdir("/proc/self/fd"))
    late = ShortLived(asleep)
    assert not late.collect()
    assert late.end(kill=True) is None
    killed = ShortLived(asleep)
    os.kill(killed.process, signal.SIGKILL)
    assert killed.end() is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_it_ends_with_whoever_started_it() -> None:
    """Killed, that one cannot end it: it would go on, and hold the socket that others ask."""
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        try:
            os.write(writing, b"%d\n" % ShortLived(asleep).process)
            time.sleep(60)
        finally:
            os._exit(0)
    os.close(writing)
    child = int(os.read(reading, 20))
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    # The pipe ends when the last one that holds it is gone.
    assert select.select([reading], [], [], 30)[0]
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert child > 0


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
    monkeypatch.setattr(children, "_END_SECONDS", 600.0)
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
        "import sys, time\nfrom pathlib import Path\nfrom zombiescope.host.children import KeptChild\n"
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
