# SPDX-License-Identifier: Apache-2.0
"""Real-time tasks between two looks: names with brackets, threads, tasks that come and go, text that is none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.build import ScriptedHost

from zombiescope.facts.gap import Gap
from zombiescope.probes.readers.cpu_time import RealTimeWatch


def stat(ticks: int, policy: int, name: bytes = b"spin", threads: int = 1) -> bytes:
    fields = [b"0"] * 50
    fields[0], fields[11], fields[17], fields[36], fields[37], fields[38] = (
        b"R", b"%d" % ticks, b"%d" % threads, b"1", b"50", b"%d" % policy,
    )  # fmt: skip
    return b"7 (" + name + b") " + b" ".join(fields) + b"\n"


def seen(before: bytes, after: bytes) -> list[tuple[int, str, str, float]]:
    host = ScriptedHost({b"/proc/7/stat": before, b"/proc/7/comm": b"sp) in\x1b\n"})
    watch = RealTimeWatch(host)
    host.wait(10)
    host.change({b"/proc/7/stat": after})
    found = watch.seen()
    assert not isinstance(found, Gap)
    assert found.seconds >= 10
    return [(task.pid, task.name, task.policy, task.seconds) for task in found.tasks]


def test_a_real_time_task_is_told_with_its_time_and_a_printable_name() -> None:
    assert seen(stat(100, 1, b"a) R ("), stat(1000, 1, b"a) R (")) == [(7, r"sp) in\x1b", "fifo", 9.0)]


@pytest.mark.parametrize("after", [stat(1000, 0), stat(100, 1), b"", b"7 (spin", b"7 (spin) R x y\n"])
def test_others_idle_ones_and_garbage_are_not(after: bytes) -> None:
    assert seen(stat(100, 1), after) == []


@pytest.mark.parametrize(
    "told",
    [{}, {"seconds": 1.0}, {"tasks": []}, {"seconds": "x", "tasks": []}, {"seconds": None, "tasks": []},
     {"seconds": 1.0, "tasks": [None]}, {"seconds": 1.0, "tasks": [[7, "fifo", 50, 1.0]]},
     {"seconds": 1.0, "tasks": [["x", "fifo", 50, 1.0, 0]]}, {"seconds": 1.0, "tasks": 7}],
)  # fmt: skip
def test_what_a_damaged_recording_tells_is_a_gap(told: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    host = ScriptedHost({})
    monkeypatch.setattr(host, "experiment", lambda _name, _work: told)
    found = RealTimeWatch(host).seen()
    assert isinstance(found, Gap)
    assert "not in a form we know" in found.reason


def test_without_proc_it_is_a_gap() -> None:
    found = RealTimeWatch(ScriptedHost({b"/sys/x": b""})).seen()
    assert isinstance(found, Gap)
