# SPDX-License-Identifier: Apache-2.0
"""Events that a person gives: several spellings of a time; a line that is none is refused with its number."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.analysis.event_file import parse_events
from zombiescope.errors import UsageError
from zombiescope.facts.history import ACTOR_FAILURE, JOB_FAILURE, JOB_SUCCESS


def test_every_spelling_of_a_time() -> None:
    text = b"""# failures
2023-11-14T22:13:20Z job 17
2023-11-14T22:13:21 job 18
1700000002.5 job 19

{"at": 1700000003, "what": "job 20"}
{"at": "2023-11-14T22:13:24+00:00", "what": "job 21"}
"""
    marks = parse_events(text, "x")
    assert [mark.at - 1_700_000_000 for mark in marks] == [0, 1, 2.5, 3, 4]
    assert [mark.detail for mark in marks] == [f"job {number}" for number in range(17, 22)]


@pytest.mark.parametrize(
    "line", [b"yesterday job", b"{}", b'{"at": true}', b"{", b"nan x", b"-5 x", b"1e99 x", b"\xff\xfe"]
)
def test_a_line_without_a_time_is_refused_with_its_number(line: bytes) -> None:
    with pytest.raises(UsageError, match="cannot use x") as refused:
        parse_events(b"1700000000 fine\n" + line, "x")
    assert "line 2" in refused.value.why


@given(st.binary(max_size=200))
def test_any_bytes_are_events_or_refused(text: bytes) -> None:
    try:
        marks = parse_events(text, "x")
    except UsageError:
        return
    assert all(mark.detail.isprintable() for mark in marks)


HERE = Path(__file__).parent / "ray"
BEGIN = 1_794_993_878.0


def told(name: str) -> list[tuple[float, str]]:
    marks = parse_events((HERE / name).read_bytes(), name)
    return [(round(mark.at - BEGIN, 1), mark.what) for mark in marks]


def test_a_real_rays_dashboard_tells_jobs_and_actors() -> None:
    """Recorded from Ray 2.60: one job that went well, one that raised, one whose actor's process died."""
    assert told("jobs.json") == [(0.4, JOB_SUCCESS), (5.8, JOB_FAILURE), (18.3, JOB_FAILURE)]
    assert told("actors.json") == [(17.3, ACTOR_FAILURE)], "supervisors of jobs end as they should"


def test_a_real_rays_log_lines_tell_the_same() -> None:
    assert told("submit.log") == [(4.2, JOB_SUCCESS), (10.9, JOB_FAILURE), (21.9, JOB_FAILURE)]
    assert told("gcs_server.out") == [(17.3, ACTOR_FAILURE)]


FAILED, ENDED = "d9b373ed55a64feb8242e02dbe79a49c", "7ad2d189f7e94e70a38c781354912448"


def entry(at: int, number: str, unit: str, **more: object) -> dict[str, object]:
    return {"__REALTIME_TIMESTAMP": str(at * 1_000_000), "MESSAGE_ID": number, "UNIT": unit, "_PID": "1", **more}


def test_the_journal_as_json() -> None:
    lines = [
        entry(1_700_000_000, FAILED, "train@7.service", MESSAGE="train@7.service: Failed with result 'exit-code'."),
        entry(1_700_000_060, ENDED, "train@8.service", MESSAGE="train@8.service: Deactivated successfully."),
        entry(1_700_000_061, "39f53479d3a045ac8e11786248231fbf", "other.service", MESSAGE="Started"),
        entry(1_700_000_062, FAILED, "forged.service", _PID="4711", MESSAGE="I am not systemd"),
        {"__REALTIME_TIMESTAMP": "1700000070000000", "_PID": "9", "MESSAGE": list(b"Job 'a' failed\xff")},
    ]
    marks = parse_events("\n".join(map(json.dumps, lines)).encode(), "x")
    assert [(mark.at - 1_700_000_000, mark.what) for mark in marks] == [
        (0, JOB_FAILURE), (60, JOB_SUCCESS), (70, JOB_FAILURE),
    ]  # fmt: skip
    assert "train@7.service" in marks[0].detail


def test_the_journal_as_export_with_a_field_that_is_no_text() -> None:
    message = b"two\nlines"
    text = (
        b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1700000000000000\n_PID=1\nUNIT=a.service\n"
        b"MESSAGE\n" + len(message).to_bytes(8, "little") + message + b"\nMESSAGE_ID=" + FAILED.encode() + b"\n\n"
        b"__CURSOR=s=2\n__REALTIME_TIMESTAMP=1700000005000000\n_PID=1\nUNIT=b.service\nMESSAGE_ID=" + ENDED.encode() + b"\n"
    )  # fmt: skip
    marks = parse_events(text, "x")
    assert [(mark.at, mark.what) for mark in marks] == [(1_700_000_000, JOB_FAILURE), (1_700_000_005, JOB_SUCCESS)]
    assert "\n" not in marks[0].detail


def test_json_may_say_that_a_job_went_well() -> None:
    marks = parse_events(b'{"at": 1, "what": "a", "ok": true}\n{"at": 2, "what": "b", "ok": false}\n', "x")
    assert [mark.what for mark in marks] == [JOB_SUCCESS, JOB_FAILURE]


@given(
    st.binary(max_size=60),
    st.sampled_from([b"__CURSOR=x\n", b"[", b'{"data": {"actors": {"a": ', b"2026-01-01 00:00:00,000 "]),
)
def test_no_bytes_after_a_known_beginning_are_a_traceback(tail: bytes, head: bytes) -> None:
    with suppress(UsageError):
        parse_events(head + tail, "x")
