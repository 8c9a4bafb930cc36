# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.facts.gap import Gap
from zombiescope.host.live import LiveHost
from zombiescope.kernel import kmsg
from zombiescope.kernel.kmsg import Dating, Klog, Kmsg, KmsgRecord, fresh_lines, parse_line, parse_record
from zombiescope.probes.readers import kernel_log
from zombiescope.probes.readers.kernel_log import open_kernel_log, read_kernel_log


@pytest.mark.parametrize(
    ("raw", "record"),
    [
        (
            b"6,339,5140900,-;hello\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:05.0\n",
            KmsgRecord(339, 105.1409, True, b"hello"),
        ),
        (b"12,1,1000000,-;forged\n", KmsgRecord(1, 101.0, False, b"forged")),
        (b"30,2,1000000,-,caller=T1;systemd\n", KmsgRecord(2, 101.0, False, b"systemd")),
        (b"4,3,0,c;a\\x0ab\\x5cc;d\n", KmsgRecord(3, 100.0, True, b"a\nb\\c;d")),
        (b"no semicolon", None),
        (b"a,b,c;d", None),
        (b"6,339;short", None),
        (b"", None),
    ],
)
def test_a_record_of_the_kernels_log(raw: bytes, record: KmsgRecord | None) -> None:
    assert parse_record(raw, Dating(100.0)) == record


@given(st.binary(max_size=200))
def test_any_bytes_give_a_record_or_nothing(raw: bytes) -> None:
    record = parse_record(raw, Dating(0.0))
    assert record is None or record.sequence >= 0


def test_a_line_is_dated_by_the_drift_of_its_clock() -> None:
    """2 s behind after 1,000,000 s: a line of now by all of it, one of the middle by half."""
    dating = Dating(1_700_000_000.0, 2.0 / 999_998.0)
    assert dating.on_wall(999_998.0) == pytest.approx(1_700_000_000.0 + 1_000_000.0, abs=1e-3)
    assert dating.on_wall(499_999.0) == pytest.approx(1_700_000_000.0 + 500_000.0, abs=1e-3)
    assert dating.on_wall(0.0) == 1_700_000_000.0


TEXT = b"<6>[    1.500000] one\n<14>[    2.000001][  T77] user: two\n<4>[ 3000.000000] three\n"
RESET = b"<3>[ 3001.000000] ena 0000:00:05.0 eth0: Trigger reset is on\n"


class Refusing:
    def __init__(self, *_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_lines_become_records_and_user_space_is_told_apart() -> None:
    records = [parse_line(line, Dating(100.0), 0) for line in TEXT.splitlines()]
    assert [(each.at, each.is_kernel, each.text) for each in records if each] == [
        (101.5, True, b"one"),
        (102.000001, False, b"user: two"),
        (3100.0, True, b"three"),
    ]
    assert parse_line(b"<6>no time", Dating(0.0), 0) is None
    assert parse_line(b"\xff" * 40, Dating(0.0), 0) is None


def test_only_what_came_since_the_last_look_is_new() -> None:
    last = TEXT.splitlines()[1]
    assert fresh_lines(TEXT, last) == [TEXT.splitlines()[2]]
    assert len(fresh_lines(TEXT, b"<6>[ 9.0] overwritten")) == 3


def test_a_refused_device_is_no_reason_to_be_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [TEXT]
    monkeypatch.setattr(kmsg, "read_all", lambda: said[0])

    monkeypatch.setattr(kernel_log, "Kmsg", Refusing)
    follower = open_kernel_log(LiveHost())
    assert not isinstance(follower, Gap)
    assert follower.read() == []
    said[0] = TEXT + RESET
    assert [event.device for event in follower.read()] == ["eth0"]
    assert follower.read() == []
    whole = read_kernel_log(LiveHost())
    assert not isinstance(whole, Gap)
    assert str(whole.source) == "klogctl"
    assert [event.device for event in whole.events] == ["eth0"]


def test_where_both_are_refused_the_device_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> bytes:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(kmsg, "read_all", refused)
    monkeypatch.setattr(kernel_log, "Kmsg", Refusing)
    found = open_kernel_log(LiveHost())
    assert isinstance(found, Gap)
    assert "kmsg" in found.reason


def test_both_ways_to_the_log_date_a_line_by_the_same_drift(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The log's clock is 1,000 s behind, after 4,000 s of the steady one: a line of its 1,500th second is of the 2,000th."""
    monkeypatch.setattr(kmsg, "monotonic_lead_ns", lambda: 1000 * 10**9)
    monkeypatch.setattr(time, "clock_gettime", lambda _: 4000.0)
    monkeypatch.setattr(kmsg, "read_all", lambda: b"<6>[ 1500.000000] one\n")
    device = tmp_path / "kmsg"
    device.write_bytes(b"6,1,1500000000,-;one\n")
    booted = 1_700_000_000.0
    by_call = next(Klog(lambda: booted + 4000.0).read(1))
    by_device = next(Kmsg(lambda: booted + 4000.0, os.fsencode(device)).read(1))
    assert by_call.at == by_device.at == pytest.approx(booted + 2000.0)


@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel's log is root's")
def test_the_running_kernel_answers() -> None:
    records = list(Klog(LiveHost().wall_clock).read(100_000))
    assert records
    assert all(earlier.at <= later.at + 1 for earlier, later in pairwise(records))
