# SPDX-License-Identifier: Apache-2.0
"""The text of hist triggers, as kernel/trace/trace_events_hist.c prints it; and any other bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zombiescope.kernel.tracefs import buckets_by_core, longest_by_core

WAITS = b"""# event histogram
#
# trigger info: hist:keys=c,lat.log2:vals=hitcount:sort=hitcount:size=2048 [active]
#

{ c:          1, lat: ~ 2^3           } hitcount:          2
{ c:          0, lat: ~ 2^17          } hitcount:          1
{ c:          0, lat: ~ 2^0           } hitcount:        497

Totals:
    Hits: 500
    Entries: 3
    Dropped: 4
"""
ENTRIES = b"""# event histogram
#

{ common_cpu:          0, vec:          3 } hitcount:        498
	max:      90112  vec:          3
{ common_cpu:          0, vec:          2 } hitcount:          1
	max:          7  vec:          2
{ common_cpu:          1, vec:          3 } hitcount:          2
	max:          6  vec:          3

Totals:
    Hits: 501
    Entries: 3
    Dropped: 0
"""


def test_buckets_by_core_and_what_was_dropped() -> None:
    buckets, dropped = buckets_by_core(WAITS)
    assert buckets == {0: [497] + [0] * 16 + [1], 1: [0, 0, 0, 2]}
    assert dropped == 4


def test_the_longest_of_both_softirqs_under_both_names_of_the_key() -> None:
    assert longest_by_core(ENTRIES) == {0: 0.090112, 1: 6e-6}
    assert longest_by_core(ENTRIES.replace(b"common_cpu", b"cpu")) == {0: 0.090112, 1: 6e-6}


@given(st.binary(max_size=300))
def test_any_bytes_give_something(text: bytes) -> None:
    buckets, dropped = buckets_by_core(text)
    assert dropped >= 0
    assert all(count >= 0 for row in buckets.values() for count in row)
    assert all(seconds >= 0 for seconds in longest_by_core(text).values())


def test_a_power_beyond_reason_ends_in_the_last_bucket() -> None:
    buckets, _ = buckets_by_core(b"{ c: 0, lat: ~ 2^63 } hitcount: 5")
    assert buckets == {0: [0] * 31 + [5]}
