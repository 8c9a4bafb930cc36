# SPDX-License-Identifier: Apache-2.0
"""The law of gaps: any fact may be missing; then every null says why, nothing else does, and no verdict turns to absent."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from rich.console import Console
from tests.build import case, observed, snapshot

from zombiescope.diagnosis.engine import diagnose
from zombiescope.diagnosis.finding import Verdict
from zombiescope.facts.cgroups import Identity, MemoryUse, Residuals, Shape, Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.presenters.doctor_report import Report, render_report
from zombiescope.presenters.doctor_text import Shown, render_report_text
from zombiescope.presenters.scan_json import render_scan
from zombiescope.presenters.scan_text import render_scan_text

NAMES = ("name", "kernel", "boot_id", "uptime_seconds")
MISSING: dict[str, Any] = {
    "identity": Identity(None, None, None, None, tuple(Gap(f"host.{name}", "unread") for name in NAMES)),
    "shape": Shape(None, None, (Gap("cost.kernel_bytes", "unread"),)),
    "hierarchy": Gap("memcg.hierarchy", "unread"),
    "census": Gap("memcg.counted", "unread"),
    "residuals": Gap("parents[].bytes", "unread"),
    "sweep": Gap("cost.sweep_seconds", "unread"),
    "empty_directories": Gap("visible_leak.empty_directories", "unread"),
}
USE = MemoryUse(1, 2, 3, None, 4)
WHOLE = {
    "v1, well": snapshot(),
    "v1, zombies": snapshot(5000, live=100),
    "v1, directories": snapshot(5, live=20_000, empty=15_000),
    "v1, both": snapshot(50_000, live=20_000, empty=15_000),
    "v1, zombies without bytes": snapshot(5, residuals=Residuals({}, frozenset())),
    "v1, garbled": snapshot(5, residuals=Residuals({b"/a": USE}, frozenset(), frozenset({b"/g"}))),
    "v2, well": snapshot(parents={}),
    "v2, zombies": snapshot(5000, parents={b"/a": 4000, b"/": 1000}),
    "v2, unsplit, garbled, gone": snapshot(
        30,
        parents={b"/a": 9, b"/b": 9, b"/c": 9, b"/d": 3},
        residuals=Residuals({b"/d": USE}, frozenset({b"/a"}), frozenset({b"/b"})),
    ),
    "v2, gone": snapshot(3, parents={b"/a": 3}, residuals=Residuals({}, frozenset())),
    "v2, unsplit": snapshot(3, parents={b"/": 3}, residuals=Residuals({}, frozenset({b"/"}))),
}


def with_gaps(whole: Snapshot) -> Iterator[Snapshot]:
    """Every choice of facts that are missing."""
    for choice in product((False, True), repeat=len(MISSING)):
        yield whole._replace(
            **{fact: MISSING[fact] for fact, is_missing in zip(MISSING, choice, strict=True) if is_missing}
        )


def nulls(value: Any, path: str = "") -> Iterator[str]:
    if value is None:
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from nulls(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from nulls(inner, f"{path}[]")


def scan_document(seen: Snapshot) -> dict[str, Any]:
    rendered = render_scan(observed(seen), diagnose(case(seen)))
    document = json.loads(json.dumps(rendered, allow_nan=False))
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE)
def test_every_null_of_a_scan_has_a_gap_and_every_gap_a_null(whole: Snapshot) -> None:
    for seen in with_gaps(whole):
        document = scan_document(seen)
        gaps = document.pop("gaps")
        facts = [gap["fact"] for gap in gaps]
        # A list that could not be had is empty and has a gap of its own name.
        assert set(facts) - {"parents"} == set(nulls(document))
        assert ("parents" in facts) == (document["parents"] == [] and document["memcg"]["zombies"] != 0)
        assert len(facts) == len(set(facts)), "one gap a field"
        assert all(gap["reason"] for gap in gaps)


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE)
def test_no_number_stands_where_a_fact_was_missing(whole: Snapshot) -> None:
    for seen in with_gaps(whole):
        document = scan_document(seen)
        if isinstance(seen.census, Gap):
            assert {document["memcg"][name] for name in ("counted", "live", "zombies", "ratio", "source")} == {None}
            assert document["cost"]["kernel_bytes"] is None
            assert document["parents"] == []
            leaked = document["visible_leak"]["empty_directories"]
            assert document["severity"] == ("critical" if leaked and leaked >= 10_000 else "unknown")
        if isinstance(seen.sweep, Gap):
            assert document["cost"]["sweep_seconds"] is document["cost"]["sweep_cgroups_read"] is None
        if isinstance(seen.empty_directories, Gap):
            assert set(document["visible_leak"].values()) == {None}
        if isinstance(seen.residuals, Gap):
            assert all(set(row["bytes"].values()) == {None} for row in document["parents"])


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE)
def test_a_missing_fact_may_give_unknown_and_never_another_verdict(whole: Snapshot) -> None:
    full = {finding.id: finding.verdict for finding in diagnose(case(whole)).findings}
    for seen in with_gaps(whole):
        for finding in diagnose(case(seen)).findings:
            assert finding.verdict in (full[finding.id], Verdict.UNKNOWN)
            if isinstance(seen.census, Gap) and finding.id == "zombie-population":
                assert finding.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE)
def test_every_null_of_a_doctor_has_a_gap_and_no_gap_names_what_is_there(whole: Snapshot) -> None:
    for seen in with_gaps(whole):
        document = json.loads(json.dumps(render_report(Report(case(seen), diagnose(case(seen)))), allow_nan=False))
        facts = {gap["fact"] for gap in document.pop("gaps")}
        missing = set(nulls(document))
        assert missing <= facts
        assert not {
            fact for fact in facts - missing if fact.split(".")[0].split("[")[0] in document and "host" not in fact
        }


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE)
def test_every_snapshot_can_be_drawn(whole: Snapshot, width: int) -> None:
    for seen in (whole, *(whole._replace(**{fact: gap}) for fact, gap in MISSING.items())):
        diagnosis = diagnose(case(seen))
        for parts in (
            render_scan_text(observed(seen), diagnosis, explain=True),
            render_report_text(Report(case(seen, seen), diagnosis), Shown(explain=True)),
        ):
            console = Console(file=io.StringIO(), width=width, color_system=None)
            for part in parts:
                console.print(part)
            assert isinstance(console.file, io.StringIO)
            drawn = console.file.getvalue()
            assert "…" not in drawn
            assert "".join(drawn.split()).startswith("".join(diagnosis.verdict.split()))
            assert all(len(line) <= width for line in drawn.split("\n"))
