# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

from hypothesis import given
from hypothesis import strategies as st
from tests.build import ScriptedHost

from zombiescope.facts.gap import Gap
from zombiescope.facts.softirq import KsoftirqdTime
from zombiescope.probes.readers.softirq_wait import find_ksoftirqd, read_softirq_wait

FILES: dict[bytes, bytes | int | list[bytes | int]] = {
    b"/sys/devices/system/cpu/online": b"0-1\n",
    b"/proc/1/stat": b"1 (systemd) S 0 1",
    b"/proc/14/stat": b"14 (ksoftirqd/0) S 2 0",
    b"/proc/22/stat": b"22 (ksoftirqd/1) S 2 0",
    b"/proc/90/stat": b"90 (ksoftirqd/0) R 1 0",
    b"/proc/14/schedstat": b"1000 2000000000 30\n",
    b"/proc/22/schedstat": b"1 2 3\n",
    b"/proc/net/softnet_stat": b"00000010 00000002 00000003 00000000\n0000000a 00000001 0000000f\n",
}


def test_each_core_has_its_thread_and_an_impostor_comes_too_late() -> None:
    host = ScriptedHost(FILES)
    found = find_ksoftirqd(host)
    assert found == {0: 14, 1: 22}
    look = read_softirq_wait(host, found)
    assert look.ksoftirqd == {0: KsoftirqdTime(1000, 2_000_000_000, 30), 1: KsoftirqdTime(1, 2, 3)}
    assert (look.dropped, look.squeezed) == (3, 18)


def test_what_cannot_be_read_is_a_gap_and_never_nought() -> None:
    hidden = ScriptedHost({b"/proc/1/stat": b"1 (sh) S 0 1"})
    gap = find_ksoftirqd(hidden)
    assert isinstance(gap, Gap)
    look = read_softirq_wait(hidden, gap)
    assert (look.ksoftirqd, look.squeezed, look.dropped) == (gap, None, None)
    refused = read_softirq_wait(ScriptedHost({b"/proc/14/schedstat": errno.EACCES}), {0: 14})
    assert isinstance(refused.ksoftirqd, Gap)
    assert "permission denied" in refused.ksoftirqd.reason


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_bytes_give_a_look(schedstat: bytes, softnet: bytes) -> None:
    host = ScriptedHost({b"/proc/14/schedstat": schedstat, b"/proc/net/softnet_stat": softnet})
    look = read_softirq_wait(host, {0: 14})
    assert isinstance(look.ksoftirqd, Gap) or look.ksoftirqd[0].wait_ns >= 0
