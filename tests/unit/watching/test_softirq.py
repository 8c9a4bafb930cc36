# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from tests.build import ScriptedHost, case, snapshot

from zombiescope.diagnosis.case import NO_SOFTIRQ
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.rules import starved_softirq
from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.softirq import SoftirqSeen
from zombiescope.watching.softirq import (
    DetailedSoftirqWatch,
    SoftirqTeller,
)

INTERVAL_SECONDS, WINDOW_SECONDS = 5.0, 600.0
STAT = b"/proc/14/schedstat"
FILES: dict[bytes, Any] = {b"/proc/14/stat": b"14 (ksoftirqd/0) S 2 0", STAT: b"0 500000000 5\n"}
PLAIN = {
    "cores": {"1": {kind: [[0, 4], 0.25, 12.5, False] for kind in ("network", "others", "poll", "queue")}},
    "missed": 0,
}


class Replayed(ScriptedHost):
    outcome: Any = None

    def experiment(self, name: str, work: object) -> dict[str, Any] | None:
        del name, work
        outcome: dict[str, Any] | None = self.outcome
        return outcome


def test_the_agents_counter_begins_at_nought_and_only_grows() -> None:
    host = ScriptedHost(FILES)
    probe = SoftirqTeller(host)
    values = []
    for wait in (500_000_000, 750_000_000, 3, 1_000_000_003):
        host.change({STAT: b"0 %d 5\n" % wait})
        values.append(probe.read().samples[0].value)
    assert values == [0.0, 0.25, 0.25, 1.25]


def test_no_thread_to_be_seen_is_a_refusal_and_a_lost_one_a_gap() -> None:
    with pytest.raises(ObservationError):
        SoftirqTeller(ScriptedHost({b"/proc/1/stat": b"1 (sh) S 0"}))
    host = ScriptedHost(FILES)
    probe = SoftirqTeller(host)
    host.change({STAT: None})
    assert probe.read().gap is not None
    assert isinstance(probe.fill(case(snapshot())).softirq, Gap)


def test_the_agent_judges_by_the_longest_wait_of_the_last_minutes_and_forgets_it() -> None:
    """What dropped while the longest was waited for is told with it."""
    softnet = b"/proc/net/softnet_stat"
    host = ScriptedHost({**FILES, softnet: b"00000010 00000000 00000000\n"})
    probe = SoftirqTeller(host)
    probe.read()
    assert probe.fill(case(snapshot())).softirq == NO_SOFTIRQ, "one look tells nothing of a time"
    host.wait(INTERVAL_SECONDS)
    host.change({STAT: b"0 900000000 6\n", softnet: b"00000020 00000007 00000001\n"})
    probe.read()
    judged = probe.fill(case(snapshot()))
    seen = judged.softirq
    assert isinstance(seen, SoftirqSeen)
    assert seen.longest is not None
    assert (seen.longest.seconds, seen.longest.slices, seen.longest.dropped) == (0.4, 1, 7)
    assert (seen.dropped, seen.squeezed, round(seen.seconds)) == (7, 1, INTERVAL_SECONDS)
    finding = starved_softirq.judge(judged)
    assert finding.verdict is Verdict.PRESENT
    assert "ksoftirqd of core 0 waited 400.0 ms each time" in finding.summary
    for _ in range(round(WINDOW_SECONDS / INTERVAL_SECONDS)):
        host.wait(INTERVAL_SECONDS)
        probe.read()
    seen = probe.fill(case(snapshot())).softirq
    assert isinstance(seen, SoftirqSeen)
    assert seen.longest is not None
    assert (seen.longest.seconds, round(seen.seconds)) == (0.0, WINDOW_SECONDS)


def test_a_recording_gives_the_latencies_back() -> None:
    host = Replayed({**FILES, b"/proc/softirqs": b""}, is_live=False)
    host.outcome = PLAIN
    seen = DetailedSoftirqWatch(host).seen()
    assert isinstance(seen, SoftirqSeen)
    assert not isinstance(seen.latencies, Gap)
    assert [(core.core, core.worst.longest_seconds, core.worst.longest_at) for core in seen.latencies] == [
        (1, 0.25, 12.5)
    ]


def test_what_hist_triggers_told_is_known_to_be_the_least() -> None:
    host = Replayed({**FILES, b"/proc/softirqs": b""}, is_live=False)
    for by, is_least in (("hist", True), ("bpf", False)):
        host.outcome = {**PLAIN, "by": by, "refused": "bpf(2) is not allowed"}
        seen = DetailedSoftirqWatch(host).seen()
        assert isinstance(seen, SoftirqSeen)
        assert (seen.is_least, seen.refused) == (is_least, "bpf(2) is not allowed")


@pytest.mark.parametrize("outcome", [None, {}, {"cores": 1}, {"cores": {"x": {}}}, {"gap": ["softirq", "no", ""]}])
def test_what_a_stranger_recorded_is_a_gap_and_the_files_remain(outcome: Any) -> None:
    host = Replayed({**FILES, b"/proc/softirqs": b""}, is_live=False)
    host.outcome = outcome
    seen = DetailedSoftirqWatch(host).seen()
    assert isinstance(seen, SoftirqSeen)
    assert isinstance(seen.latencies, Gap)
    assert seen.waited_seconds == 0.0


def test_a_machine_that_tells_nothing_is_a_gap() -> None:
    assert isinstance(DetailedSoftirqWatch(ScriptedHost({b"/proc/1/stat": b"1 (sh) S 0"})).seen(), Gap)
