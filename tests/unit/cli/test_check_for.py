# SPDX-License-Identifier: Apache-2.0
"""`check --for`: a booted candidate is watched; what grows too fast fails though the count is still small."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.trees import TARGETS, WANTED, enabled, plant

from zombiescope.diagnosis.gate import GateReason
from zombiescope.diagnosis.limits import Limits
from zombiescope.facts.gap import Gap
from zombiescope.history.store import Store
from zombiescope.host.live import LiveHost, TreeHost
from zombiescope.pipeline.check import Watching, _counts
from zombiescope.probes.readers.node import read_identity


class Growing(TreeHost):
    """A folder that lives: each second so many memory cgroups more are counted."""

    is_live = True

    def __init__(self, root: Path, per_second: float, first: int = 10) -> None:
        super().__init__(os.fsencode(root))
        self.root, self.per_second, self.first, self.now = root, per_second, first, 0.0
        self.wait(0)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        count = round(self.first + self.per_second * self.now)
        (self.root / "proc/cgroups").write_text(
            f"#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t5\t{count}\t1\n"
        )

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def node(tmp_path: Path) -> Path:
    files = {
        "proc/self/mountinfo": "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
        "proc/self/cgroup": "5:memory:/\n",
        "proc/cgroups": "",
        "sys/fs/cgroup/memory/a/memory.stat": "cache 0\n",
    }
    return plant(tmp_path, {**files, **TARGETS, **enabled("ssh.service", WANTED)})


def watched(host: Growing, seconds: float) -> dict[str, GateReason]:
    told: list[float] = []
    reasons = _counts(host, Limits(), Watching(seconds), told.append, [])
    assert told == sorted(told)
    assert not told or told[-1] == seconds
    return {reason.what: reason for reason in reasons}


@pytest.mark.parametrize(("per_second", "verdict"), [(0, "OK"), (0.1, "WARNING"), (1, "CRITICAL")])
def test_the_slope_is_judged(node: Path, per_second: float, verdict: str) -> None:
    growth = watched(Growing(node, per_second), 600)["growth"]
    assert growth.verdict == verdict
    assert growth.value == pytest.approx(per_second * 3600, rel=0.02, abs=1)


def test_the_worst_look_counts(node: Path) -> None:
    found = watched(Growing(node, 5), 600)
    assert found["zombies"].verdict == "WARNING"
    assert found["zombies"].value == pytest.approx(3000, rel=0.05)


def test_a_shrinking_count_is_fine(node: Path) -> None:
    assert watched(Growing(node, -0.5, first=700), 600)["growth"].verdict == "OK"


@pytest.mark.parametrize(("per_hour", "verdict"), [(0, "OK"), (300, "WARNING"), (3000, "CRITICAL")])
def test_growth_is_taken_from_what_an_agent_has_kept(tmp_path: Path, per_hour: float, verdict: str) -> None:
    host = LiveHost()
    boot, now = read_identity(host).boot_id, host.wall_clock()
    store = Store(str(tmp_path))
    for minute in range(60):
        zombies = 100 + per_hour * minute / 60
        store.add_sample(
            now - (60 - minute) * 60, boot or "", {"counted": zombies + 10, "live": 10.0, "zombies": zombies}
        )
    store.close()
    found = {
        reason.what: reason
        for reason in _counts(host, Limits(), Watching(0, os.fsencode(tmp_path)), lambda _: None, [])
    }
    assert found["growth"].verdict == verdict
    assert found["growth"].value == pytest.approx(per_hour, rel=0.1, abs=1)


def test_without_a_history_growth_is_not_judged(tmp_path: Path) -> None:
    untold: list[Gap] = []
    reasons = _counts(LiveHost(), Limits(), Watching(0, os.fsencode(tmp_path)), lambda _: None, untold)
    assert untold == []
    assert "growth" not in {reason.what for reason in reasons}
