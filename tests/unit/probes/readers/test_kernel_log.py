# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import ScriptedHost

from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import KernelLog, LogSource
from zombiescope.probes.readers.kernel_log import digest, open_kernel_log, parse_journal_line, read_kernel_log

RESET = b"ena 0000:00:05.0 eth0: Trigger reset is on"
LOCKUP = b"watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [a\xff:1]"


class Recorded(ScriptedHost):
    """A host whose experiment has a recorded outcome."""

    outcome: Any = None

    def experiment(self, name: str, work: object) -> dict[str, Any] | None:
        del name, work
        outcome: dict[str, Any] | None = self.outcome
        return outcome


def recorded(outcome: Any) -> KernelLog | Gap:
    host = Recorded({b"/proc/sys/kernel/dmesg_restrict": b"1\n"})
    host.outcome = outcome
    return read_kernel_log(host)


def test_only_the_kernels_lines_are_believed_and_the_others_counted() -> None:
    lines = [(10.0, True, b"hello"), (11.0, False, RESET), (12.0, True, LOCKUP)]
    log = recorded(digest(LogSource.KMSG, lines, 2, 20.0, believe_users=False))
    assert isinstance(log, KernelLog)
    assert (log.since, log.until, log.lines, log.foreign, log.lost) == (10.0, 20.0, 2, 1, 2)
    assert [(event.at, event.cpu, event.task) for event in log.events] == [(12.0, 3, r"a\xff")]


def test_the_lab_may_ask_to_believe_user_space_and_it_is_said() -> None:
    log = recorded(digest(LogSource.KMSG, [(11.0, False, RESET)], 0, 20.0, believe_users=True))
    assert isinstance(log, KernelLog)
    assert log.believes_users
    assert [event.device for event in log.events] == ["eth0"]


def test_what_crosses_is_json_with_the_known_lines_alone() -> None:
    plain = digest(
        LogSource.JOURNAL, [(1.0, True, b"password=hunter2"), (2.0, True, RESET)], 0, 3.0, believe_users=False
    )
    assert recorded(json.loads(json.dumps(plain))) == recorded(plain)
    assert "hunter2" not in json.dumps(plain)


def test_a_folder_and_a_refusal_are_gaps() -> None:
    folder = ScriptedHost({}, is_live=False)
    assert isinstance(read_kernel_log(ScriptedHost({b"/proc/sys/kernel/dmesg_restrict": b"1\n"}, is_live=False)), Gap)
    assert isinstance(read_kernel_log(folder), Gap)
    assert isinstance(open_kernel_log(folder), Gap)
    assert recorded({"gap": ["kernel_log", "not permitted", "be root"]}) == Gap(
        "kernel_log", "not permitted", "be root"
    )


@pytest.mark.parametrize("outcome", [{}, {"said": 1}, {"gap": 3}, {"source": "tea", "said": []}])
def test_a_strangers_recording_gives_a_gap(outcome: dict[str, Any]) -> None:
    assert isinstance(recorded(outcome), Gap)


def entry(**changes: Any) -> bytes:
    fields = {
        "__REALTIME_TIMESTAMP": "1700000005000000",
        "__MONOTONIC_TIMESTAMP": "9000000",
        "_SOURCE_MONOTONIC_TIMESTAMP": "4000000",
        "_TRANSPORT": "kernel",
        "SYSLOG_FACILITY": "0",
        "MESSAGE": "hello",
    }
    return json.dumps({key: value for key, value in {**fields, **changes}.items() if value is not None}).encode()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (entry(), (1_700_000_000.0, True, b"hello")),
        (entry(SYSLOG_FACILITY="1"), (1_700_000_000.0, False, b"hello")),
        (entry(SYSLOG_FACILITY=None), (1_700_000_000.0, False, b"hello")),
        (entry(_SOURCE_MONOTONIC_TIMESTAMP=None), (1_700_000_005.0, True, b"hello")),
        (entry(MESSAGE=[104, 105, 255]), (1_700_000_000.0, True, b"hi\xff")),
        (entry(_TRANSPORT="syslog"), None),
        (entry(MESSAGE=None), None),
        (entry(MESSAGE=[1000]), None),
        (entry(__REALTIME_TIMESTAMP="x", __MONOTONIC_TIMESTAMP="y", _SOURCE_MONOTONIC_TIMESTAMP="z"), None),
        (b"[]", None),
        (b"{", None),
    ],
)
def test_a_line_of_the_journal(line: bytes, expected: tuple[float, bool, bytes] | None) -> None:
    assert parse_journal_line(line) == expected


@given(st.binary(max_size=300))
def test_any_bytes_are_a_journal_line_or_not(raw: bytes) -> None:
    line = parse_journal_line(raw)
    assert line is None or len(line) == 3
