# SPDX-License-Identifier: Apache-2.0
"""Fault 8: the kernel's log by klogctl(3), where a container's device cgroup refuses /dev/kmsg."""

from __future__ import annotations

import errno
import os
from itertools import pairwise

import pytest

from zombiescope.facts.gap import Gap
from zombiescope.host.live import LiveHost
from zombiescope.kernel import klog
from zombiescope.kernel.klog import Klog, fresh_lines, parse_line
from zombiescope.probes.readers import kernel_log
from zombiescope.probes.readers.kernel_log import open_kernel_log, read_kernel_log

TEXT = b"<6>[    1.500000] one\n<14>[    2.000001][  T77] user: two\n<4>[ 3000.000000] three\n"
RESET = b"<3>[ 3001.000000] ena 0000:00:05.0 eth0: Trigger reset is on\n"


class Refusing:
    def __init__(self, *_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_lines_become_records_and_user_space_is_told_apart() -> None:
    records = [parse_line(line, 100.0, 0) for line in TEXT.splitlines()]
    assert [(each.at, each.is_kernel, each.text) for each in records if each] == [
        (101.5, True, b"one"),
        (102.000001, False, b"user: two"),
        (3100.0, True, b"three"),
    ]
    assert parse_line(b"<6>no time", 0.0, 0) is None
    assert parse_line(b"\xff" * 40, 0.0, 0) is None


def test_only_what_came_since_the_last_look_is_new() -> None:
    last = TEXT.splitlines()[1]
    assert fresh_lines(TEXT, last) == [TEXT.splitlines()[2]]
    assert len(fresh_lines(TEXT, b"<6>[ 9.0] overwritten")) == 3


def test_a_refused_device_is_no_reason_to_be_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [TEXT]
    monkeypatch.setattr(klog, "read_all", lambda: said[0])

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

    monkeypatch.setattr(klog, "read_all", refused)
    monkeypatch.setattr(kernel_log, "Kmsg", Refusing)
    found = open_kernel_log(LiveHost())
    assert isinstance(found, Gap)
    assert "kmsg" in found.reason


@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel's log is root's")
def test_the_running_kernel_answers() -> None:
    records = list(Klog(LiveHost().wall_clock).read(100_000))
    assert records
    assert all(earlier.at <= later.at + 1 for earlier, later in pairwise(records))
