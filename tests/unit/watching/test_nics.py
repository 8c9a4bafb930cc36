# SPDX-License-Identifier: Apache-2.0
"""Where the log is refused the drivers' counters stand in; series stay few."""

from __future__ import annotations

from typing import Any

import pytest
from tests.build import ScriptedHost, case, snapshot

from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import LogEvent, NicReset, ResetReason
from zombiescope.facts.softirq import NicCounters
from zombiescope.probes.kernel_messages import parse_line
from zombiescope.watching import nics
from zombiescope.watching.nics import FollowedNicsWatch, NicsTeller

TABLE = b"  eth0: 1 2\n"
TIMEOUT = b"/sys/class/net/eth0/queues/tx-0/tx_timeout"


class Refused(ScriptedHost):
    counters: Any = None

    def experiment(self, name: str, work: object) -> dict[str, Any] | None:
        del name, work
        return {"eth0": dict(self.counters or {})}


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Refused:
    monkeypatch.setattr(nics, "open_kernel_log", lambda *_, **__: Gap("kernel_log", "not permitted"))
    return Refused({b"/proc/net/dev": TABLE, TIMEOUT: b"1\n"})


def test_counters_stand_in_for_a_refused_log(refused: Refused) -> None:
    refused.counters = {"suspected_poll_starvation": 1}
    watch = FollowedNicsWatch(refused)

    def reasons() -> list[ResetReason]:
        watch.look()
        return [reset.reason for reset in watch.ended]

    assert reasons() == []
    refused.change({TIMEOUT: b"2\n"})
    assert reasons() == [ResetReason.TRANSMIT_TIMEOUT]
    refused.change({TIMEOUT: b"3\n"})
    refused.counters = {"suspected_poll_starvation": 2}
    assert reasons() == [ResetReason.POLL_STARVATION]
    assert reasons() == []


def test_the_probe_counts_from_nought_and_says_its_gap(refused: Refused) -> None:
    refused.counters = {"suspected_poll_starvation": 7}
    teller = NicsTeller(refused)
    reading, seen = teller.read(), teller.fill(case(snapshot()))
    assert {(sample.labels, sample.value) for sample in reading.samples} == {
        (("eth0", "poll-starvation"), 0),
        (("eth0", "transmit-timeout"), 0),
    }
    assert reading.gap == Gap("kernel_log", "not permitted")
    assert reading.remembered == {"nic_resets": 0}
    assert isinstance(seen.kernel_log, Gap)
    assert isinstance(seen.nic_counters, NicCounters)


class Log:
    def __init__(self) -> None:
        self.events: list[LogEvent] = []

    def read(self) -> list[LogEvent]:
        events, self.events = self.events, []
        return events

    def close(self) -> None: ...


def test_the_log_is_folded_as_it_comes_and_series_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    monkeypatch.setattr(nics, "open_kernel_log", lambda *_, **__: log)
    host = Refused({b"/proc/net/dev": TABLE})
    probe = NicsTeller(host)

    def say(line: str) -> None:
        event = parse_line(host.wall_clock(), line.encode())
        assert event
        log.events.append(event)

    for card in range(40):
        say(f"ena 0000:00:{card:02x}.0 eth{card}: Trigger reset is on")
        say(f"ena 0000:00:{card:02x}.0: Device reset completed successfully")
    samples = probe.read().samples
    assert sum(sample.value for sample in samples) == 40
    assert len(samples) <= 13
    assert ("other", "other") in {sample.labels for sample in samples}
    host.wait(1)
    say("ena 0000:00:01.0 eth1: Keep alive watchdog timeout.")
    assert sum(sample.value for sample in probe.read().samples) == 40  # not over yet
    host.wait(60)
    reading = probe.read()
    assert sum(sample.value for sample in reading.samples) == 41
    assert [(event.what, event.detail) for event in reading.happened] == [("nic-reset", "eth1: keep-alive")]


def test_a_reset_has_no_more_than_was_told() -> None:
    assert NicReset(1.0, "eth0", ResetReason.OTHER) == NicReset(1.0, "eth0", ResetReason.OTHER, None, None, None, None)


def test_a_series_that_never_counted_makes_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight cards that reset have their names, although two series were there before any."""
    log = Log()
    monkeypatch.setattr(nics, "open_kernel_log", lambda *_, **__: log)
    host = Refused({b"/proc/net/dev": TABLE})
    host.counters = {"suspected_poll_starvation": 0}
    probe = NicsTeller(host)
    assert [sample.value for sample in probe.read().samples] == [0, 0]
    for card in range(8):
        for words in (f" eth{card}: Trigger reset is on", ": Device reset completed successfully"):
            event = parse_line(host.wall_clock(), f"ena 0000:00:{card:02x}.0{words}".encode())
            assert event
            log.events.append(event)
    named = {sample.labels[0]: sample.value for sample in probe.read().samples}
    assert named == {f"eth{card}": 1 for card in range(8)}
