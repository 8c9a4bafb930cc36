# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from zombiescope.analysis.nic_resets import derive_resets
from zombiescope.facts.kernel_log import LogEvent, NicReset, ResetReason
from zombiescope.probes.kernel_messages import parse_line

ENA, PCI = "ena 0000:00:05.0 eth0: ", "ena 0000:00:05.0: "


def events(*lines: tuple[float, str]) -> list[LogEvent]:
    found = [parse_line(at, line.encode()) for at, line in lines]
    assert all(found)
    return [event for event in found if event]


def test_the_lines_of_a_starved_queue_are_one_reset() -> None:
    lines = events(
        (100.0, "NETDEV WATCHDOG: eth0 (ena): transmit queue 5 timed out"),
        (100.0, ENA + "TX q 5 is paused for too long (threshold 5000000). usecs since napi 6400000. napi scheduled: 1. "
         "napi CPU: 11. msecs since interrupt: 6402"),
        (100.0, ENA + "napi handler hasn't been called for a long time but is scheduled"),
        (100.4, ENA + "Trigger reset is on"),
        (100.9, PCI + "Device reset completed, status: 0, Driver info: ENA v2.17"),
    )  # fmt: skip
    assert derive_resets(lines) == (NicReset(100.0, "eth0", ResetReason.POLL_STARVATION, 5, 11, 6.4, True),)


def test_a_starved_poll_is_known_by_its_own_words_where_the_driver_does_not_conclude() -> None:
    lines = events(
        (5.0, ENA + "TX hasn't completed, qid 3, index 1. 10904000 usecs from last napi execution, napi scheduled: 1"),
        (5.0, ENA + "Lost TX completions are above the threshold (129 > 128). Completion transmission timeout: 5000."),
        (5.1, ENA + "Resetting the device"),
        (6.0, ENA + "Trigger reset is on"),
        (6.5, PCI + "Device reset completed successfully"),
    )
    (reset,) = derive_resets(lines)
    assert (reset.reason, reset.queue, reset.since_napi_seconds) == (ResetReason.POLL_STARVATION, 3, 10.904)


def test_the_swapped_numbers_of_the_driver_are_put_right() -> None:
    said = "[1/2] Lost TX completions are above threshold (129 > 128), completion timeout: 5000 (msec), 1 msecs since interrupt, "
    for second in ("[2/2] qid: 11, napi CPU: 5", "[2/2] qid: 5, napi CPU: 11"):
        (reset,) = derive_resets(events((1.0, ENA + said + "1 msecs since napi, qid: 5"), (1.0, ENA + second)))
        assert (reset.queue, reset.napi_cpu, reset.reason) == (5, 11, ResetReason.MISSING_COMPLETIONS)
        assert reset.is_over is None


def test_late_completions_alone_are_no_reset_and_two_cards_are_two() -> None:
    late = ENA + "Found a Tx that wasn't completed on time, qid 5, index 1."
    assert derive_resets(events((1.0, late))) == ()
    other = "ena 0000:00:06.0 eth1: Keep alive watchdog timeout."
    found = derive_resets(events((1.0, ENA + "Trigger reset is on"), (1.1, other), (40.0, ENA + "Trigger reset is on")))
    assert [(reset.at, reset.device, reset.reason) for reset in found] == [
        (1.0, "eth0", ResetReason.OTHER),
        (1.1, "eth1", ResetReason.KEEP_ALIVE),
        (40.0, "eth0", ResetReason.OTHER),
    ]


def test_the_watchdogs_own_delay_is_not_the_polls() -> None:
    line = "virtio_net virtio1 eth0: NETDEV WATCHDOG: CPU: 3: transmit queue 5 timed out 5064 ms"
    (reset,) = derive_resets(events((1.0, line)))
    assert reset == NicReset(1.0, "eth0", ResetReason.TRANSMIT_TIMEOUT, 5)


def test_a_failed_reset_says_so() -> None:
    lines = events((1.0, ENA + "Trigger reset is on"), (2.0, PCI + "Reset attempt failed. Can not reset the device"))
    (reset,) = derive_resets(lines)
    assert reset.is_over is False
