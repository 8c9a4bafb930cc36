# SPDX-License-Identifier: Apache-2.0
"""No two lines of one answer disagree: laws over the text and the document of every reading command, of every recorded machine,
every recorded scenario and every golden file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.machines.answers import Answers, goldens, kept, recordings, replayed

from zombiescope.analysis.scan import Population
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.cgroups import CountSource
from zombiescope.presenters.document import null_fields
from zombiescope.presenters.figures import tried_words

_ORDER = ("OK", "UNKNOWN", "WARNING", "CRITICAL")
_STOCK = ("zombies", "ratio", "expected", "sweep", "harm", "directories")
_BESIDE = frozenset({"steps[].change.files", "zombies[].born_at", "findings", "units", "tier", "zombies[].refs"})
"""Gaps about a part of what is there: some could not be looked at."""
_ROUNDING = 0.002
_FIRST_WORDS: dict[str, str | tuple[str, ...]] = {
    "rewrite_files": "rewrite ",
    "delete_files": "delete ",
    "remove_segments": "remove ",
    "drop_files": ("release the cached pages", "drop "),
    "reclaim": ("release the cached pages", "reclaim "),
    "swap_in": "bring ",
    "flush": "write ",
}
"""How the doctor's first step begins, by what the plan does against the origin first."""


@pytest.mark.parametrize("name", recordings())
def test_no_two_lines_of_a_replay_disagree(name: str) -> None:
    for law in LAWS:
        law(replayed(name))


@pytest.mark.parametrize("name", goldens())
def test_no_two_lines_of_a_golden_answer_disagree(name: str) -> None:
    for law in LAWS:
        law(kept(name))


def a_null_has_its_gap_and_a_gap_its_null(said: Answers) -> None:
    for command, document in said.documents.items():
        gaps = [gap["fact"] for gap in document["gaps"]]
        body = {key: value for key, value in document.items() if key != "gaps"}
        lacking = [
            field for field in null_fields(body) if not any(field == gap or field.startswith(f"{gap}.") for gap in gaps)
        ]
        assert not [field for field in lacking if not field.endswith("waiver")], (command, lacking)
        for fact in set(gaps) - _BESIDE:
            values = list(_at(body, fact))
            assert not values or any(value in (None, [], {}) for value in values), (command, fact, values[:3])


def _at(value: Any, fact: str) -> Iterator[Any]:
    """What is found at a path such as `parents[].bytes.file`; nothing where there is no such field."""
    head, _, rest = fact.partition(".")
    name, is_list, inside = head.partition("[]")
    if inside or not isinstance(value, dict) or name not in value:
        return
    inner = value[name]
    for each in inner if is_list and isinstance(inner, list) else [inner]:
        if rest:
            yield from _at(each, rest)
        else:
            yield each


def the_counts_of_a_scan_add_up_and_are_in_its_text(said: Answers) -> None:
    document = said.documents["scan"]
    counts, text, severity = document["memcg"], said.said("scan"), document["severity"]
    assert f"severity {severity}" in text
    if counts["zombies"] is None:
        assert severity == "unknown"
        assert "0 dead memory cgroups" not in text
        assert not document["parents"]
        return
    counted, live = counts["counted"], counts["live"]
    assert counts["zombies"] == counted - live
    assert counts["ratio"] == round(counted / live, 3)
    if severity != "ok":
        assert "nothing out of the ordinary" not in text
        assert "nothing to do" not in text
    assert f"({counted:,} counted, {live:,} live)" in text
    assert f"zombies {counts['zombies']:,} = counted {counted:,} - live {live:,}" in said.said("explain")
    if document["cost"]["kernel_bytes"] is not None:
        assert f"kernel memory {document['cost']['kernel_bytes']:,} bytes = {counts['zombies']:,} zombies" in said.said(
            "explain"
        )
    rows = document["parents"]
    shown = [row["zombies"] for row in rows]
    if None not in shown:
        assert sum(shown) <= counts["zombies"]
        assert shown == sorted(shown, reverse=True)
    for row in rows[:10]:
        told = "?" if row["zombies"] is None else f"{row['zombies']:,}"
        assert f"{row['path']} {told} " in text, row


def one_stock_has_one_severity(said: Answers) -> None:
    """Of scan, check and doctor, each by its own counts: they looked one after the other."""
    scan, check, doctor = (said.documents.get(name) for name in ("scan", "check", "doctor"))
    if check is not None and scan is not None:
        stock = [reason["verdict"] for reason in check["reasons"] if reason["what"] in _STOCK]
        assert max(stock, key=_ORDER.index) == scan["severity"].upper()
    if doctor is not None:
        found = next(each for each in doctor["findings"] if each["id"] == "zombie-population")
        facts = {item["fact"]: item["value"] for item in found["evidence"]}
        if found["verdict"] == "unknown":
            return
        if scan is not None and "check" in said.documents:
            judged = {each["id"]: each["severity"] for each in doctor["findings"]}
            if judged["costly-reclaim-walk"] == "ok" and scan["memcg"]["zombies"] == facts["zombies"]:
                sweep = {judged["costly-sweep"]} - {"unknown"}
                worst = {judged["zombie-population"], judged["visible-leak"], *sweep}
                assert max(map(str.upper, worst), key=_ORDER.index) == scan["severity"].upper()
        assert facts["zombies"] == facts["counted"] - facts["live"]
        population = Population(facts["counted"], facts["live"], CountSource.PROC_CGROUPS)
        if not any(each["verdict"] == "present" and each["id"] != found["id"] for each in doctor["findings"]):
            assert found["severity"] == Thresholds().of_population(population)


def a_check_says_in_its_text_what_is_in_its_document(said: Answers) -> None:
    document = said.documents.get("check")
    if document is None:
        return
    *lines, empty, last = said.texts["check"].splitlines()
    assert not empty
    assert ": zombiescope " in last
    verdicts = [reason["verdict"] for reason in document["reasons"]]
    assert document["verdict"] == max(verdicts, key=_ORDER.index)
    assert lines[0].startswith(f"{document['verdict']}: ")
    assert len(lines) == 1 + len(document["reasons"])
    for line, reason in zip(lines[1:], document["reasons"], strict=True):
        assert line.split()[:2] == [reason["verdict"], f"{reason['what']}:"]
        limit = re.search(r"\(limit ([0-9,.]+)\)", line)
        if reason["verdict"] == "OK" and limit:
            assert reason["value"] < float(limit[1].replace(",", "")), line
        if reason["value"] is None:
            assert reason["verdict"] == "UNKNOWN"
    values = {reason["what"]: reason["value"] for reason in document["reasons"]}
    assert values["zombies"] == said.documents["scan"]["memcg"]["zombies"]
    assert values["ratio"] == said.documents["scan"]["memcg"]["ratio"]


def the_totals_of_an_autopsy_are_the_sums_of_its_zombies(said: Answers) -> None:
    document = said.documents.get("autopsy")
    if document is None:
        return
    totals, text, bodies = document["totals"], said.said("autopsy"), document["zombies"]
    if totals["zombies"] is not None and totals["zombies"] > 0:
        assert text.startswith(f"{totals['zombies']:,} zombie")
    if document["reconciliation"]["walk"] is None:
        gaps = {gap["fact"] for gap in document["gaps"]}
        assert {"zombies", "totals.by_pin", "totals.by_maker"} <= gaps
        assert not bodies
        return
    makers = {row["maker"]: row["zombies"] for row in totals["by_maker"]}
    assert totals["zombies"] == document["reconciliation"]["walk"] == sum(makers.values())
    assert list(makers.values()) == sorted(makers.values(), reverse=True), "most first"
    assert abs(sum(row["share"] for row in totals["by_maker"]) - bool(makers)) < _ROUNDING
    if makers:
        assert f"were left by {next(iter(makers))}" in text
    assert max([row["zombies"] for row in totals["freed_by"]], default=0) <= totals["zombies"]
    assert f"{totals['zombies']:,} walked, " in text
    assert all(f"{maker} {count:,} " in text for maker, count in list(makers.items())[:10])
    if len(bodies) == totals["zombies"]:  # a golden file lists a few
        assert Counter(body["maker"] for body in bodies) == makers
        kinds = Counter(kind for body in bodies for kind in {pin["kind"] for pin in body["pins"]})
        assert kinds == totals["by_pin"]


def what_frees_a_zombie_is_the_same_in_its_row_and_in_the_totals(said: Answers) -> None:
    document = said.documents.get("autopsy", {"totals": {}, "zombies": []})
    totals, bodies = document["totals"], document["zombies"]
    if not bodies or len(bodies) != totals["zombies"]:
        return
    alone: Counter[str] = Counter()
    together: Counter[frozenset[str]] = Counter()
    for body in bodies:
        actions = {remedy["action"] for remedy in body["freed_by"]}
        if len(actions) > 1 and all(remedy.get("together") for remedy in body["freed_by"]):
            together[frozenset(actions)] += 1
        else:
            alone.update(actions)
    freed = {row["action"]: row["zombies"] for row in totals["freed_by"]}
    assert together == {frozenset(row["actions"]): row["zombies"] for row in totals["freed_together"]}
    assert all(number <= freed[action] for action, number in alone.items())
    assert alone["delete_file"] == freed.get("delete_file", 0)
    for taken, number in together.items():
        assert any(
            f"{' and '.join(map(tried_words, row['actions']))} {number:,} " in said.said("autopsy")
            for row in totals["freed_together"]
        ), taken


def groups_sum_to_the_totals(said: Answers) -> None:
    totals: dict[str, Any] = said.documents.get("autopsy", {}).get("totals", {})
    for group in ("maker", "parent", "pin", "file"):
        rows = _rows(said.texts.get(f"by {group}", ""), group)
        if not rows:
            continue
        counts = [count for count, _ in rows]
        assert counts == sorted(counts, reverse=True), group
        if group in ("maker", "parent"):
            assert sum(counts) == totals["zombies"], group
            assert sum(pages or 0 for _, pages in rows) == totals["pages"], group
        else:
            is_cut = len(counts) == MOST_GROUPS
            assert is_cut or sum(counts) >= totals["zombies"], group
            swapped = re.search(r" and ([0-9,]+) in swap", said.texts["autopsy"])
            most = totals["pages"] + (_number(swapped[1]) if swapped else 0)
            assert sum(pages or 0 for _, pages in rows) <= most, group
        if group == "pin":
            assert set(totals["by_pin"].values()) <= set(counts)


MOST_GROUPS = 20
_TITLES = {"maker": "maker", "pin": "held by", "file": "file", "parent": "nearest live parent"}


def _rows(text: str, group: str) -> list[tuple[int, int | None]]:
    """Zombies and pages of each row; pages None where they are not known."""
    found: list[tuple[int, int | None]] = []
    lines = iter(text.splitlines())
    if not any(re.match(rf"{_TITLES[group]}\s+zombies\s+pages", line) for line in lines):
        return []
    for line in lines:
        row = re.search(r"  +([0-9,]+)  +(?:at least )?([0-9,]+|\?)$", line)
        if row is None:
            return found
        found.append((_number(row[1]), None if row[2] == "?" else _number(row[2])))
    return found


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def a_plan_frees_no_more_than_there_are(said: Answers) -> None:
    document = said.documents.get("plan")
    if document is None:
        return
    text, steps = said.said("plan"), document["steps"]
    known = [step["expected"] for step in steps if step["expected"]]
    freed = sum(each["zombies_freed"] or 0 for each in known)
    for each in known:
        assert (each["zombies_freed"] or 0) <= each["up_to"]
    assert [step["n"] for step in steps] == list(range(1, len(steps) + 1))
    assert all(f"{step['n']}. {step['title']}" in text for step in steps)
    if document["zombies"] is None:
        assert not known
        assert "nothing to propose" not in text
        return
    there = said.documents["autopsy"]["totals"]["zombies"]
    assert document["zombies"] <= there, "below the limits a plan is about those that still grow, or none"
    assert document["zombies"] or not steps
    assert freed + document["out_of_reach"] <= document["zombies"]
    assert sum(each["up_to"] for each in known) <= document["zombies"]
    if freed:
        assert re.search(rf"which frees? {freed:,} of {document['zombies']:,} zombie", text)
    own = [step for step in steps if step["change"]["kind"] != "ask_human" and not step["instead_of"]]
    perhaps = sum(step["expected"]["up_to"] for step in own if step["expected"] and _is_open(step["expected"]))
    headline = text.partition(" 1. ")[0]
    assert (f"at most {perhaps:,} " in headline) == bool(perhaps), "as the steps say"
    assert "frees 0 zombies" not in text


def _is_open(expected: dict[str, Any]) -> bool:
    return expected["zombies_freed"] is None


def the_doctors_first_step_is_the_plans(said: Answers) -> None:
    """Of the steps against the origin, where no plan was made with the diagnosis: the words are chosen without one."""
    doctor, plan = said.documents["doctor"], said.documents.get("plan")
    first = re.search(r"^do {8}(.*)$", said.texts["doctor"], re.MULTILINE)
    if plan is None or first is None:
        return
    step = next((each for each in plan["steps"] if each["finding"] == doctor["origin"]), None)
    words = _FIRST_WORDS.get(step["change"]["kind"]) if step else None
    assert words is None or first[1].startswith(words), (first[1], step["title"] if step else "")


def what_was_handed_on_is_said_in_text_and_document(said: Answers) -> None:
    for command in ("scan", "doctor"):
        found = said.documents[command]["handed_on"]
        is_told = bool(found) and bool(found["parents"] or found["parents_untold"])
        assert bool(re.search(r"^handed on ", said.texts[command], re.MULTILINE)) == is_told, command


def who_uses_a_file_is_known_to_the_plan_too(said: Answers) -> None:
    bodies, plan = said.documents.get("autopsy", {}).get("zombies", []), said.documents.get("plan")
    pins = [pin for body in bodies for pin in body["pins"] if pin["kind"] == "tmpfs" and pin["path"] and pin["holder"]]
    if plan is None or not pins:
        return
    held, text = {pin["path"]: pin["holder"] for pin in pins}, said.said("plan")
    for step in plan["steps"]:
        asked = [word for command in step["change"].get("commands", ()) for word in command.split()]
        assert not ("fuser" in asked and held.keys() & set(asked)), "who has it open is known"
        assert not set(map(str, step["change"].get("files", ()))) & held.keys(), "in use"
    assert "does not keep who has which file open" not in text
    assert any(holder in text for holder in held.values())


def the_time_of_the_cores_adds_up_or_is_said_to_be_unknown(said: Answers) -> None:
    document = said.documents.get("cores")
    if document is None:
        return
    text, saturated, stretches = said.said("cores"), document["saturated"], document["stretches"]
    if document["window"]["seconds"] is None:
        assert text.startswith("the cores could not be watched")
        return
    parts = ("user", "system", "softirq", "irq", "steal", "iowait", "idle", "lost")
    for core in document["cores"]:
        assert abs(sum(core[part] for part in parts) - 1) < _ROUNDING, core["core"]
    lost = sum(core["lost"] for core in document["cores"]) / len(document["cores"])
    if saturated["seconds"] is None:
        assert text.startswith("whether a core was saturated is not known")
        assert lost >= 0.5 - _ROUNDING
        return
    assert stretches or lost < 0.5 + _ROUNDING
    assert text.startswith("no saturated core") == (not stretches)
    assert abs(sum(each["seconds"] for each in stretches) - saturated["seconds"]) < 0.01
    assert abs(sum(saturated["by_mode"].values()) - saturated["seconds"]) < 0.01
    assert document["window"]["cores"] == len(document["cores"])
    if lost >= 0.05 + _ROUNDING and not stretches:
        assert "is unaccounted for" in text


def the_doctor_does_not_contradict_itself(said: Answers) -> None:
    document = said.documents["doctor"]
    verdict, present = document["verdict"], [each for each in document["findings"] if each["verdict"] == "present"]
    assert said.said("doctor").startswith(" ".join(verdict.split()))
    whole = " ".join([verdict, *(each["summary"] for each in document["findings"])])
    clean = re.search(r"`([^`]+)` [^;]*leaves nothing behind", verdict)
    facts = [(item["fact"], item["value"]) for each in present for item in each["evidence"]]
    if clean:
        left = [value for fact, value in facts if fact in (f"maker[unit:{clean[1]}]", f"{clean[1]}.zombies")]
        assert not any(left), left
    growth = [chain for chain in document["chains"] if chain[0] == "zombie-growth" and len(chain) > 1]
    if growth:
        assert "the maker is not known" not in whole, growth
    for each in present:
        makers = [item["value"] for item in each["evidence"] if re.fullmatch(r"maker\[[^\]]+\]", item["fact"])]
        assert makers == sorted(makers, reverse=True), each["id"]
    assert not re.search(r"\b(took|waited|stalled) 0%?[^;]* as far as it is known", whole), "unknown is not nought"
    shares = [float(share) for share in re.findall(r"([0-9]+)% more was accounted", whole)]
    assert not shares, "shares of different wholes are not added"


def the_recorded_and_the_replayed_doctor_saw_the_same_cores(said: Answers) -> None:
    """`cores` and `doctor` of one recording: what one says was not seen, the other does not call unknown."""
    cores, doctor = said.documents.get("cores"), said.documents["doctor"]
    if cores is None or cores["window"]["seconds"] is None:
        return
    verdict = next(each["verdict"] for each in doctor["findings"] if each["id"] == "saturated-core")
    expected = "unknown" if cores["saturated"]["seconds"] is None else "present" if cores["stretches"] else "absent"
    assert verdict == expected


LAWS = (
    a_null_has_its_gap_and_a_gap_its_null,
    the_counts_of_a_scan_add_up_and_are_in_its_text,
    one_stock_has_one_severity,
    a_check_says_in_its_text_what_is_in_its_document,
    the_totals_of_an_autopsy_are_the_sums_of_its_zombies,
    what_frees_a_zombie_is_the_same_in_its_row_and_in_the_totals,
    groups_sum_to_the_totals,
    a_plan_frees_no_more_than_there_are,
    the_doctors_first_step_is_the_plans,
    what_was_handed_on_is_said_in_text_and_document,
    who_uses_a_file_is_known_to_the_plan_too,
    the_time_of_the_cores_adds_up_or_is_said_to_be_unknown,
    the_doctor_does_not_contradict_itself,
    the_recorded_and_the_replayed_doctor_saw_the_same_cores,
)
