# SPDX-License-Identifier: Apache-2.0
"""The running kernel's log and the drivers' counters: a forged line is not believed, a refusal is a gap, and the rest works."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest
from tests.kernel.command import IN_MACHINE
from tests.kernel.confined import answer_of_child, keep_only
from tests.kernel.conftest import not_here
from tests.kernel.exact_tiers import told_if

from zombiescope.analysis.nic_resets import derive_resets
from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import KernelLog, LogSource
from zombiescope.host.live import LiveHost
from zombiescope.kernel.kmsg import monotonic_lead_ns
from zombiescope.kernel.network import read_driver_counters
from zombiescope.probes.readers.kernel_log import read_kernel_log
from zombiescope.probes.readers.softirq_wait import read_nic_counters
from zombiescope.watching.nics import FollowedNicsWatch, NicsWatch

pytestmark = pytest.mark.kernel


def forge(line: str) -> None:
    try:
        descriptor = os.open("/dev/kmsg", os.O_WRONLY)
    except OSError as error:
        not_here(f"the kernel's log cannot be written: {error}")
        raise
    try:
        os.write(descriptor, b"<0>" + line.encode())  # asks for the kernel's own facility
    finally:
        os.close(descriptor)


def test_a_forged_line_is_counted_and_not_believed() -> None:
    host = LiveHost()
    watch, trusting = FollowedNicsWatch(host), FollowedNicsWatch(host, believe_users=True)
    card = f"lab{secrets.token_hex(4)}"
    before = host.wall_clock()
    forge(f"ena 0000:00:05.0 {card}: Trigger reset is on\n")
    forge("ena 0000:00:05.0: Device reset completed successfully\n")
    log, believed = read_kernel_log(host), read_kernel_log(host, believe_users=True)
    assert isinstance(log, KernelLog)
    assert isinstance(believed, KernelLog)
    assert log.source is LogSource.KMSG
    assert log.foreign >= 2
    assert card not in {event.device for event in log.events}
    (reset,) = [reset for reset in derive_resets(believed.events) if reset.device == card]
    near = 2.0 if monotonic_lead_ns() is None else 0.05
    assert before - near < reset.at < host.wall_clock() + near, "by how far the log's clock is behind"
    assert reset.is_over
    watch.look()
    trusting.look()
    assert card not in {each.device for each in watch.ended}
    assert [each.device for each in trusting.ended if each.device == card] == [card]
    watch.close()
    trusting.close()


def test_the_log_is_a_gap_to_nobody_and_the_counters_are_not() -> None:
    def look() -> dict[str, object]:
        keep_only()
        seen = NicsWatch(LiveHost(), 0.0).seen()
        assert not isinstance(seen, Gap)
        counters = seen.counters
        return {"log": list(seen.log), "devices": 0 if isinstance(counters, Gap) else len(counters.last)}

    answer = answer_of_child(look)
    if len(answer["log"]) != len(Gap._fields):
        pytest.skip("this kernel lets everybody read its log (kernel.dmesg_restrict)")
    assert "not permitted" in answer["log"][1]
    assert answer["log"][2] == "run as root, or with CAP_SYSLOG"
    assert answer["devices"] == len([name for name in os.listdir("/sys/class/net") if name != "lo"])


@told_if(not IN_MACHINE)  # the machines of the matrix have no network card
def test_the_drivers_counters_agree_with_the_kernels_own_files() -> None:
    counters = read_nic_counters(LiveHost())
    if isinstance(counters, Gap):
        not_here(counters.reason)
        return
    for device in counters:
        queues = Path("/sys/class/net", device.device, "queues")
        assert device.timeouts == sum(int(file.read_text()) for file in queues.glob("tx-*/tx_timeout"))
        try:
            every = read_driver_counters(device.device)
        except OSError:
            continue
        assert set(device.counters) <= set(every)
