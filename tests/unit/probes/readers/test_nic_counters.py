# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
from typing import Any

from tests.build import ScriptedHost

from zombiescope.facts.gap import Gap
from zombiescope.facts.softirq import DeviceCounters, NicCounters
from zombiescope.probes.readers.softirq_wait import read_nic_counters

TABLE = b"Inter-|   Receive\n face |bytes\n    lo: 1 2\n  eth0: 1 2\neth1:1\n"
QUEUES = b"/sys/class/net/eth0/queues/"


class Counted(ScriptedHost):
    def experiment(self, name: str, work: object) -> dict[str, Any] | None:
        del name, work
        return {"eth0": {"tx_timeout": 3, "weather": 9, "wd_expired": -1, "total_resets": "4"}, "eth1": 7}


def test_timeouts_of_all_queues_and_the_counters_we_know() -> None:
    files = {b"/proc/net/dev": TABLE, QUEUES + b"tx-0/tx_timeout": b"2\n", QUEUES + b"tx-1/tx_timeout": b"5\n"}
    host = Counted({**files, QUEUES + b"rx-0/tx_timeout": b"100\n", QUEUES + b"tx-2/tx_timeout": b"garbage"})
    assert read_nic_counters(host) == (DeviceCounters("eth0", 7, {"tx_timeout": 3}), DeviceCounters("eth1", None, {}))


def test_no_device_and_no_table_are_gaps() -> None:
    refused = read_nic_counters(Counted({b"/proc/net/dev": errno.EACCES}))
    assert isinstance(refused, Gap)
    assert "permission denied" in refused.reason
    assert isinstance(read_nic_counters(Counted({b"/proc/net/dev": b"    lo: 1 2\n"})), Gap)


def test_what_grew_is_told_and_a_counter_that_began_anew_counts_from_nought() -> None:
    first = (DeviceCounters("eth0", 1, {"tx_timeout": 5, "wd_expired": 9}), DeviceCounters("gone", 1, {}))
    last = (DeviceCounters("eth0", 3, {"tx_timeout": 5, "wd_expired": 2, "new": 8}), DeviceCounters("came", 9, {}))
    assert NicCounters(1.0, 10.0, first, last).grown() == {"eth0": {"wd_expired": 2, "timeouts": 2}}
