# SPDX-License-Identifier: Apache-2.0
"""Restarts with the journal's own times: any bytes give entries or none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.facts.gap import Gap
from zombiescope.facts.units import UnitRestart
from zombiescope.host.children import Ran
from zombiescope.host.live import LiveHost
from zombiescope.host.recording import Answer, ReplayHost
from zombiescope.probes.readers import systemd_state
from zombiescope.probes.readers.systemd_state import read_restart_times


class Asking(ReplayHost):
    """Does the experiment."""

    def __init__(self, *machines: str) -> None:
        super().__init__("this host", [Answer(0.0, "subdirectories", b"/var/log/journal", list(machines))])

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        assert name == "restart-times"
        return work()


def line(at: int, unit: object) -> bytes:
    return json.dumps({"__REALTIME_TIMESTAMP": str(at), "UNIT": unit}).encode()


def answering(monkeypatch: pytest.MonkeyPatch, ran: Ran | None) -> list[tuple[str, ...]]:
    asked: list[tuple[str, ...]] = []

    def ask(*words: str) -> Ran | None:
        asked.append(words)
        return ran

    monkeypatch.setattr(systemd_state, "ask_program", ask)
    return asked


def test_they_come_in_order_with_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line(200_500_000, "b.service"), line(100_000_000, "a\n.service"), line(150_000_000, ["x"]), b"{", b"3"]
    asked = answering(monkeypatch, Ran(0, b"\n".join(lines), ""))
    assert read_restart_times(Asking("4f"), 90.0) == (
        UnitRestart(100.0, "a\\x0a.service"),
        UnitRestart(200.5, "b.service"),
    )
    assert "--since=@90" in asked[0]


@pytest.mark.parametrize(
    ("ran", "why"),
    [
        (None, "not installed"),
        (Ran(1, b"", "No journal files were found.\nmore"), "No journal files were found."),
        (Ran(1, b"", ""), "there is no journal"),
    ],
)
def test_no_journal_is_a_gap(monkeypatch: pytest.MonkeyPatch, ran: Ran | None, why: str) -> None:
    answering(monkeypatch, ran)
    found = read_restart_times(Asking("4f"), 0.0)
    assert isinstance(found, Gap)
    assert why in found.reason


def test_a_journal_that_nobody_keeps_is_a_gap_and_not_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, Ran(0, b"", ""))
    found = read_restart_times(Asking(), 0.0)
    assert isinstance(found, Gap)
    assert "no journal is kept" in found.reason


def test_an_empty_journal_is_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, Ran(1, b"\n", ""))
    assert read_restart_times(Asking("4f"), 0.0) == ()


def test_the_journal_of_this_machine_is_not_asked_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, Ran(0, line(200_500_000, "b.service"), ""))
    found = read_restart_times(LiveHost(b"/mnt"), 0.0)
    assert isinstance(found, Gap)
    assert asked == []


@given(st.binary(max_size=200))
def test_any_line_gives_an_entry_or_none(text: bytes) -> None:
    found = systemd_state._entry(text)
    assert found is None or isinstance(found[0], float)
