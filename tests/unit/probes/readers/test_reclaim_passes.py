# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from tests.build import ScriptedHost

from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ReclaimSeen
from zombiescope.probes.readers.reclaim_rates import ReclaimWindow
from zombiescope.probes.readers.stat_sweep import SweeperTime, read_sweepers


class Replayed(ScriptedHost):
    outcome: Any = None

    def experiment(self, name: str, work: object) -> dict[str, Any] | None:
        del name, work
        outcome: dict[str, Any] | None = self.outcome
        return outcome


def seen(outcome: Any) -> ReclaimSeen | Gap:
    host = Replayed({b"/proc/vmstat": b""}, is_live=False)
    host.outcome = outcome
    window = ReclaimWindow(host)
    window.close()
    return window.seen()


def test_a_recording_gives_the_calls_back() -> None:
    row = [16, 16, 0, 6.1, 6.0, 0.4, 12.5, [0, 0, 16]]
    found = seen({"seconds": 10.0, "kinds": {"direct": [0, 0, 0, 0.0, 0.0, 0.0, None, []], "limit": row}, "unseen": 0})
    assert isinstance(found, ReclaimSeen)
    assert found.worst is not None
    assert (found.calls, found.worst.longest_at, found.worst.seconds) == (16, 12.5, 6.1)


@pytest.mark.parametrize(
    "outcome", [None, {}, {"seconds": 1, "kinds": {}, "unseen": 0}, {"gap": ["reclaim", "no", ""]}]
)
def test_what_a_stranger_recorded_is_a_gap(outcome: Any) -> None:
    assert isinstance(seen(outcome), Gap)


def test_a_machine_without_vmstat_is_a_gap() -> None:
    assert isinstance(ReclaimWindow(ScriptedHost({})).seen(), Gap)


def test_sweepers_are_known_by_name() -> None:
    tail = b" S 1 1 1 0 -1 0 0 0 0 0 %d %d 0 0 20 0"
    files = {
        b"/proc/7/stat": b"7 (kubelet)" + tail % (150, 300),
        b"/proc/8/stat": b"8 (not (kubelet)" + tail % (1, 1),
        b"/proc/9/stat": b"9 (cadvisor) S 1",
        b"/proc/10/stat": b"garbage",
    }
    assert read_sweepers(ScriptedHost(files)) == {7: SweeperTime("kubelet", 150, 300)}
    assert isinstance(read_sweepers(ScriptedHost({})), Gap)
