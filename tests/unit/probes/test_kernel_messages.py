# SPDX-License-Identifier: Apache-2.0
"""Every wording, written from the drivers' format strings by filling in their arguments; and near misses, which must not match."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.facts.kernel_log import LogEventKind, NicStep, ResetReason
from zombiescope.probes.kernel_messages import HINTS, parse_line

K, R, S = LogEventKind, ResetReason, NicStep
ENA = "ena 0000:00:05.0 eth0: "
PCI = "ena 0000:00:05.0: "

NIC_FORMS: list[tuple[Any, ...]] = [
    # (era, line, step, reason, queue, NAPI CPU, seconds since NAPI, NAPI scheduled)
    ("4.14-5.4", ENA + "Found a Tx that wasn't completed on time, qid 5, index 812.", S.SYMPTOM, None, 5, None, None, None),
    ("5.15-6.1", ENA + "Found a Tx that wasn't completed on time, qid 5, index 812. 5064000 usecs have passed since last napi "
     "execution. Missing Tx timeout value 5000 msecs", S.SYMPTOM, None, 5, None, 5.064, None),
    ("6.18", ENA + "TX hasn't completed, qid 5, index 812. 9904000 usecs from last napi execution, napi scheduled: 1",
     S.SYMPTOM, None, 5, None, 9.904, True),
    ("2.17", ENA + "TX hasn't completed, qid: 5, index: 812, 5012 msecs since interrupt, 5008 msecs since napi, napi scheduled: 0",
     S.SYMPTOM, None, 5, None, 5.008, False),
    ("2.17", ENA + "[1/2] 3 new missed TX completions, qid: 5, 5012 msecs since interrupt, 5008 msecs since napi, "
     "napi scheduled: 1", S.SYMPTOM, None, 5, None, 5.008, True),
    ("2.17", ENA + "[2/2] qid: 5, highest TX completion pending time (msec): 5120, napi sched changes: 0, napi CPU: 11",
     S.SYMPTOM, None, 5, 11, None, None),
    ("2.17 XDP", ENA + "[2/2] qid: 5, highest TX completion pending time (msec): 5120, napi sched changes: 0, napi CPU: -1",
     S.SYMPTOM, None, 5, None, None, None),
    ("<=6.1", ENA + "The number of lost tx completions is above the threshold (129 > 128). Reset the device",
     S.CAUSE, R.MISSING_COMPLETIONS, None, None, None, None),
    ("6.18", ENA + "Lost TX completions are above the threshold (129 > 128). Completion transmission timeout: 5000.",
     S.CAUSE, R.MISSING_COMPLETIONS, None, None, None, None),
    ("2.17", ENA + "[1/2] Lost TX completions are above threshold (129 > 128), completion timeout: 5000 (msec), "
     "5012 msecs since interrupt, 5008 msecs since napi, qid: 5", S.CAUSE, R.MISSING_COMPLETIONS, 5, None, 5.008, None),
    ("2.17 swapped", ENA + "[2/2] qid: 11, napi CPU: 5", S.SYMPTOM, None, 5, 11, None, None),
    ("2.17", ENA + "No completion descriptors found in CQ 5", S.CAUSE, R.MISSING_COMPLETIONS, 5, None, None, None),
    ("<=6.1", ENA + "Transmit time out", S.CAUSE, R.TRANSMIT_TIMEOUT, None, None, None, None),
    ("6.18", ENA + "TX q 5 is paused for too long (threshold 5000000). Time since last napi 6400000 usec. napi scheduled: 1",
     S.CAUSE, R.TRANSMIT_TIMEOUT, 5, None, 6.4, True),
    ("2.17", ENA + "TX q 5 is paused for too long (threshold 5000000). usecs since napi 6400000. napi scheduled: 1. "
     "napi CPU: 11. msecs since interrupt: 6402", S.CAUSE, R.TRANSMIT_TIMEOUT, 5, 11, 6.4, True),
    ("6.18", ENA + "TX timeout on invalid queue 200", S.CAUSE, R.TRANSMIT_TIMEOUT, 200, None, None, None),
    ("2.x", ENA + "timeout was called, but no offending queue was found", S.CAUSE, R.TRANSMIT_TIMEOUT, None, None, None, None),
    ("6.18", ENA + "napi handler hasn't been called for a long time but is scheduled",
     S.CAUSE, R.POLL_STARVATION, None, None, None, None),
    ("all", ENA + "Keep alive watchdog timeout.", S.CAUSE, R.KEEP_ALIVE, None, None, None, None),
    ("2.17", ENA + "Keep alive watchdog timeout, 6104 msecs since last keep alive.", S.CAUSE, R.KEEP_ALIVE, None, None, None, None),
    ("all", ENA + "ENA admin queue is not in running state!", S.CAUSE, R.ADMIN_QUEUE, None, None, None, None),
    ("all", ENA + "Potential MSIX issue on Tx side Queue = 7. Reset the device", S.CAUSE, R.MISSING_INTERRUPT, 7, None, None, None),
    ("all", ENA + "Potential MSIX issue on Rx side Queue = 7. Reset the device", S.CAUSE, R.MISSING_INTERRUPT, 7, None, None, None),
    ("2.17", ENA + "Potential MSIX issue on Tx side Queue = 7.", S.CAUSE, R.MISSING_INTERRUPT, 7, None, None, None),
    ("all", ENA + "Trigger reset is on", S.BEGUN, None, None, None, None, None),
    ("6.18", ENA + "Resetting the device", S.BEGUN, None, None, None, None, None),
    ("5.15", PCI + "Device reset completed successfully", S.DONE, None, None, None, None, None),
    ("5.4", PCI + "Device reset completed successfully, Driver info: Elastic Network Adapter (ENA) v2.1.0K", S.DONE,
     None, None, None, None, None),
    ("2.17", PCI + "Device reset completed, status: 0, Driver info: Elastic Network Adapter (ENA) v2.17.0g", S.DONE,
     None, None, None, None, None),
    ("2.17", PCI + "Device reset completed, status: -62, Driver info: Elastic Network Adapter (ENA) v2.17.0g", S.FAILED,
     None, None, None, None, None),
    ("all", PCI + "Reset attempt failed. Can not reset the device", S.FAILED, None, None, None, None, None),
    ("unregistering", "ena 0000:00:05.0 eth0 (unregistering): Trigger reset is on", S.BEGUN, None, None, None, None, None),
    # The kernel's own transmit watchdog, any driver.
    ("<=6.1", "NETDEV WATCHDOG: eth0 (ena): transmit queue 5 timed out", S.CAUSE, R.TRANSMIT_TIMEOUT, 5, None, None, None),
    ("6.5", "NETDEV WATCHDOG: eth0 (virtio_net): transmit queue 5 timed out 5064 ms", S.CAUSE, R.TRANSMIT_TIMEOUT, 5, None,
     5.064, None),
    ("6.8", "ena 0000:00:05.0 eth0: NETDEV WATCHDOG: CPU: 3: transmit queue 5 timed out 5064 ms", S.CAUSE, R.TRANSMIT_TIMEOUT, 5,
     None, 5.064, None),
    ("6.8 virtio", "virtio_net virtio1 eth0: NETDEV WATCHDOG: CPU: 3: transmit queue 5 timed out 5064 ms", S.CAUSE,
     R.TRANSMIT_TIMEOUT, 5, None, 5.064, None),
]  # fmt: skip


@pytest.mark.parametrize(("era", "line", "told"), [(form[0], form[1], form[2:]) for form in NIC_FORMS])
def test_every_wording_of_a_network_card(era: str, line: str, told: tuple[Any, ...]) -> None:
    step, reason, queue, cpu, seconds, scheduled = told
    event = parse_line(12.5, line.encode())
    assert event is not None, era
    assert (event.at, event.kind, event.text) == (12.5, K.NIC, line)
    assert (event.step, event.reason, event.queue, event.cpu, event.is_scheduled) == (
        step,
        reason,
        queue,
        cpu,
        scheduled,
    )
    assert event.seconds == pytest.approx(seconds) if seconds is not None else event.seconds is None
    assert event.device == ("0000:00:05.0" if line.startswith(PCI) else "eth0")


@pytest.mark.parametrize(
    ("line", "kind", "cpu", "seconds", "task"),
    [
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kubelet:1234]", K.SOFT_LOCKUP, 3, 22, "kubelet"),
        ("NMI watchdog: BUG: soft lockup - CPU#95 stuck for 23s! [kworker/95:1:77]", K.SOFT_LOCKUP, 95, 23, "kworker/95:1"),
        ("BUG: soft lockup - CPU#0 stuck for 67s! [a]b:c:9]", K.SOFT_LOCKUP, 0, 67, "a]b:c"),
        ("watchdog: Watchdog detected hard LOCKUP on cpu 3", K.HARD_LOCKUP, 3, None, ""),
        ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 3", K.HARD_LOCKUP, 3, None, ""),
        ("watchdog: CPU7: Watchdog detected hard LOCKUP on cpu 7", K.HARD_LOCKUP, 7, None, ""),
        ("rcu: INFO: rcu_sched self-detected stall on CPU", K.RCU_STALL, None, None, ""),
        ("INFO: rcu_sched self-detected stall on CPU { 3}  (t=60000 jiffies g=1 c=0 q=9)", K.RCU_STALL, 3, None, ""),
        ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", K.RCU_STALL, None, None, ""),
        ("INFO: task kworker/u8:2:91 blocked for more than 120 seconds.", K.HUNG_TASK, None, 120, "kworker/u8:2"),
        ("BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for 32s!", K.WORKQUEUE, 3, 32, ""),
        ("workqueue: css_free_rwork_fn hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND", K.WORKQUEUE, None, None,
         "css_free_rwork_fn"),
        ("java invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0", K.OUT_OF_MEMORY, None, None, "java"),
        ("Memory cgroup out of memory: Killed process 9 (java) total-vm:1kB, anon-rss:1kB", K.OUT_OF_MEMORY, None, None, "java"),
        ("Out of memory: Kill process 9 (java) score 900 or sacrifice child", K.OUT_OF_MEMORY, None, None, "java"),
        ("sched: RT throttling activated", K.REAL_TIME, None, None, ""),
    ],
)  # fmt: skip
def test_every_other_wording(line: str, kind: LogEventKind, cpu: int, seconds: float, task: str) -> None:
    event = parse_line(1.0, line.encode())
    assert event is not None
    assert (event.kind, event.cpu, event.seconds, event.task) == (kind, cpu, seconds, task)


@pytest.mark.parametrize(
    "line",
    [
        "ena 0000:00:05.0: Elastic Network Adapter (ENA) found at mem 80104000, mac addr 02:00:00:00:00:01",
        "ena 0000:00:05.0 eth0: Local page cache is disabled for less than 16 channels",
        ENA + "TX q 5 is paused for too long",
        ENA + "TX q five is paused for too long (threshold 5000000). Time since last napi 1 usec. napi scheduled: 1",
        ENA + "TX q 5 is paused for too long (threshold 5000000). Time since last napi 1 usec. napi scheduled: 2",
        ENA + "Trigger refill for ring 3",
        ENA + "Trigger reset is on, or so it says",
        ENA + "Keep alive watchdog timeout",
        PCI + "Device reset completed",
        "nvme nvme0: Resetting the device",
        "gve 0000:00:05.0 eth0: Trigger reset is on",
        "usb 1-1: Product: ena 0000:00:05.0 eth0: Trigger reset is on",
        "myapp[12]: ena 0000:00:05.0 eth0: Trigger reset is on",
        "x NETDEV WATCHDOG: eth0 (ena): transmit queue 5 timed out",
        "NETDEV WATCHDOG: eth0 (ena): transmit queue 5 timed out 5064 ms\nmore",
        "NETDEV WATCHDOG: eth0 (ena): receive queue 5 timed out",
        "watchdog: BUG: soft lockup - CPU#3 stuck for 22s!",
        "watchdog: Enabling soft lockup detector",
        "a fake watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [x:1]",
        "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
        "rcu: INFO: rcu_sched kthread starved for 15002 jiffies!",
        "INFO: task x:1 blocked for more than a while.",
        "Out of memory condition avoided",
        "sched: RT throttling disabled",
        "",
    ],
)
def test_near_misses_are_left_alone(line: str) -> None:
    assert parse_line(1.0, line.encode()) is None


def test_the_quick_look_lets_every_wording_through() -> None:
    assert all(any(hint in form[1].encode() for hint in HINTS) for form in NIC_FORMS)


@given(st.binary(max_size=3000))
def test_any_bytes_give_an_event_or_nothing(raw: bytes) -> None:
    for line in (raw, b"ena 0000:00:05.0 eth0: " + raw, b"NETDEV WATCHDOG: " + raw):
        event = parse_line(1.0, line)
        assert event is None or event.text.isprintable()
