# SPDX-License-Identifier: Apache-2.0
"""No two lines disagree between scan, check, cores and doctor of one scenario: its text, its document, its severity."""

from __future__ import annotations

import io
from collections.abc import Iterable
from datetime import date

import pytest
from rich.console import Console, RenderableType
from tests.scenarios.asked import case_of
from tests.scenarios.labels import read_labels

from zombiescope.diagnosis.case import NO_FLOWS, NO_HISTORY, Case
from zombiescope.diagnosis.engine import diagnose, glance
from zombiescope.diagnosis.gate import judge_counts, judge_gate
from zombiescope.diagnosis.limits import Limits
from zombiescope.facts.gap import Gap
from zombiescope.presenters.cores import render_cores, render_cores_text
from zombiescope.presenters.doctor_report import Report, render_report
from zombiescope.presenters.doctor_text import Shown, render_report_text
from zombiescope.presenters.document import rfc3339
from zombiescope.presenters.gate_json import render_nagios, render_npd, render_text
from zombiescope.presenters.scan_json import render_scan
from zombiescope.presenters.scan_text import render_scan_text


def drawn(parts: Iterable[RenderableType]) -> str:
    console = Console(file=io.StringIO(), width=300, color_system=None)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


def seen_of(name: str) -> Case:
    seen = case_of(name)
    assert seen is not None
    return seen


@pytest.mark.parametrize("name", read_labels())
def test_a_scan_and_a_check_call_the_stock_by_one_name(name: str) -> None:
    seen = seen_of(name)
    # Growth that a history tells has a reason of its own in a check: here only the stock is compared.
    found = glance(seen._replace(flows=NO_FLOWS, growth=NO_HISTORY, observations=seen.observations[-1:]))
    document = render_scan(seen.last, found)
    text = drawn(render_scan_text(seen.last, found, explain=True))
    gate = judge_gate(judge_counts(seen), (), date(2026, 1, 1))
    doctors = diagnose(seen)
    judged = [doctors.finding(each).severity for each in ("zombie-population", "visible-leak", "costly-sweep")]
    words = [severity.upper() for severity in judged[:2] + [each for each in judged[2:] if each != "unknown"]]
    assert gate.verdict.value == max(words, key=("OK", "UNKNOWN", "WARNING", "CRITICAL").index), "what the doctor says"
    if document["severity"] != "ok":
        assert "nothing out of the ordinary" not in text
    assert f"severity {document['severity']}" in text
    assert gate.verdict.value == document["severity"].upper()
    for form in (render_text(gate, "here"), render_npd(gate), render_nagios(gate, Limits())):
        assert document["severity"].upper() in form.splitlines()[0]
    counts = document["memcg"]
    if counts["zombies"] is None:
        assert "= counted" not in text
        return
    assert f"zombies {counts['zombies']:,} = counted {counts['counted']:,} - live {counts['live']:,}" in text
    told = {reason.what: reason.value for reason in gate.reasons}
    assert (told["zombies"], told["ratio"]) == (counts["zombies"], counts["ratio"])
    parents = [row["zombies"] for row in document["parents"] if row["zombies"] is not None]
    assert sum(parents) <= counts["zombies"]


@pytest.mark.parametrize("name", read_labels())
def test_the_doctors_text_is_its_document(name: str) -> None:
    seen = seen_of(name)
    found = diagnose(seen)
    document, text = (
        render_report(Report(seen, found)),
        drawn(render_report_text(Report(seen, found), Shown(explain=True))),
    )
    assert text.startswith(" ".join(document["verdict"].split()))
    for each in document["findings"]:
        if each["verdict"] == "present":
            told = f"{each['title']} ({each['severity']}, {each['id']}): {' '.join(each['summary'].split())}"
            assert told in text
        grown = [chain for chain in document["chains"] if chain[0] == "zombie-growth" and len(chain) > 1]
        if grown:
            assert "the maker is not known" not in each["summary"]


@pytest.mark.parametrize("name", read_labels())
def test_each_number_of_zombies_says_what_it_counts(name: str) -> None:
    """Growth by events and between two counts, the stock by its count and by the walk after it: both where they differ."""
    seen = seen_of(name)
    findings = {each["id"]: each for each in render_report(Report(seen, diagnose(seen)))["findings"]}
    stock, growth = findings["zombie-population"], findings["zombie-growth"]
    facts = {item["fact"]: item for item in [*growth["evidence"], *stock["evidence"]]}
    if "zombies_change" in facts:
        change = facts["zombies_change"]
        between = seen.last.snapshot.taken_at - seen.first.snapshot.taken_at
        assert change["unit"] == f"cgroups in {between:.0f} s"
        grown = facts.get("grown", change)
        moved = "rose" if change["value"] >= 0 else "fell"
        other = f"by events (the count {moved} by {abs(change['value']):,} in {between:.0f} s)"
        assert (other in growth["summary"]) == (grown["value"] != change["value"])
    if not isinstance(seen.remains, Gap) and "zombies" in facts:
        later = f"found {seen.remains.zombies:,} dead"
        assert (later in stock["summary"]) == (seen.remains.zombies != facts["zombies"]["value"])
        for each in findings.values():
            for item in each["evidence"]:
                is_of_the_walk = item["source"].startswith("autopsy")
                assert not is_of_the_walk or item["at"] == rfc3339(seen.remains.at), (each["id"], item["fact"])


@pytest.mark.parametrize("name", read_labels())
def test_the_cores_of_a_scenario_add_up(name: str) -> None:
    seen = seen_of(name)
    if isinstance(seen.cores, Gap) or not seen.cores.uses:
        return
    document, text = render_cores(seen.last.snapshot, seen.cores), drawn(render_cores_text(seen.cores))
    for use in seen.cores.uses:
        assert use.time.total == pytest.approx(seen.cores.seconds, rel=0.2)
    verdict = diagnose(seen).finding("saturated-core").verdict
    if document["saturated"]["seconds"] is None:
        assert text.startswith("whether a core was saturated is not known")
        assert verdict == "unknown"
    else:
        assert text.startswith("no saturated core") == (not seen.cores.stretches)
        assert document["saturated"]["seconds"] == pytest.approx(
            sum(document["saturated"]["by_mode"].values()), abs=0.01
        )
