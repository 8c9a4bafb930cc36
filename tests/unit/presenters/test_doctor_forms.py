# SPDX-License-Identifier: Apache-2.0
"""The page and the ticket: complete, self-contained, and safe from a stranger's names."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.asked import diagnosis_of
from tests.scenarios.built import BUILT
from tests.scenarios.facts import NOW, case, loop, services
from tests.scenarios.labels import read_labels

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import diagnose
from zombiescope.facts.gap import Gap
from zombiescope.host.recording import ReplayHost
from zombiescope.pipeline.timeline import Past, tell
from zombiescope.presenters.doctor_report import Report, code, render_doctor_markdown, render_report, told_first
from zombiescope.presenters.document import null_fields
from zombiescope.presenters.now_json import render_first
from zombiescope.remedies.plan import AskHuman, Expected, Plan, Risk, Step, StopUnit, Undo
from zombiescope.web.one_file import doctor_page

HOSTILE = '</title><script>alert(1)</script>"><img src=x onerror=alert(1)>'
STOP = Step(
    1, "stop:a", "stop", "stop a.service", StopUnit("a.service"), "it loops", "crash-looping-unit", Risk.LOW, Undo.RESTART,
    "systemctl status", Expected(40, 4096, 40), needs_consent=True,
)  # fmt: skip
DRAIN = STOP._replace(
    n=2, title="drain", change=AskHuman(("kubectl drain <node>",)), expected=None, needs_consent=False
)
PLAN = Plan("abc", ("crash-looping-unit",), (STOP, DRAIN), 40, 0)


def report(seen: Case, past: Past = Past(), plan: Plan | Gap = PLAN) -> Report:  # noqa: B008 (immutable)
    told = tell(ReplayHost("recorded", []), seen, past)
    return Report(seen, diagnose(seen), told.timeline, told.correlations, plan, told.gaps)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.addresses: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        self.addresses += [value for name, value in attrs if name in ("src", "href") and not str(value).startswith("#")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


@pytest.mark.parametrize("name", BUILT)
def test_a_page_is_whole_and_asks_nobody(name: str) -> None:
    page = doctor_page(report(BUILT[name]()))
    tags = Tags(page)
    assert tags.open == []
    assert not tags.seen & {"link", "img", "iframe", "object"}
    assert not tags.addresses, "nothing is fetched from anywhere"
    style = page[page.index("<style>") : page.index("</style>")]
    assert not re.search(r"url\((?!#)|@import", style)
    now = inside(page)["/api/v1/now"]
    present = {finding["id"] for finding in now["findings"] if finding["verdict"] == "present"}
    assert present == {finding.id for finding in diagnose(BUILT[name]()).present}
    assert now["verdict"] == diagnose(BUILT[name]()).verdict


def inside(page: str) -> dict[str, Any]:
    begin = page.index('id="documents">') + len('id="documents">')
    found: dict[str, Any] = json.loads(page[begin : page.index("</script>", begin)])
    return found


def test_what_runs_in_a_file_is_named_by_its_hash_and_nothing_else_may() -> None:
    page = doctor_page(report(BUILT["incident"]()))
    policy = unescape(page[page.index('content="') + len('content="') : page.index('">', page.index('content="'))])
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for tag, kind in (("<script>", "script-src"), ("<style>", "style-src")):
        begin = page.rindex(tag) + len(tag)
        text = page[begin : page.index(tag.replace("<", "</"), begin)]
        assert f"{kind} 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy


def test_where_people_must_stop_who_makes_them_that_comes_first_with_its_command() -> None:
    by_hand = STOP._replace(
        name="stop-maker:unit:a.service", change=AskHuman(("systemctl stop a.service",)), expected=None
    )
    freeing = STOP._replace(n=2, name="drop-files", finding="pinned-page-cache")
    seen = BUILT["incident"]()
    found = render_first(diagnose(seen), Plan("abc", ("crash-looping-unit",), (by_hand, freeing), 40, 0))
    assert found is not None
    assert (found["name"], found["look_first"], found["do_it"]) == (by_hand.name, None, "systemctl stop a.service")


def test_the_file_has_the_chain_the_first_step_what_happened_and_words_for_who_runs_no_scripts() -> None:
    page = doctor_page(report(BUILT["incident"]()))
    found = inside(page)
    assert found["/api/v1/page"]["mode"] == "file"
    now = found["/api/v1/now"]
    assert now["chains"][0][-1] == now["origin"] == "crash-looping-unit"
    assert now["remedy"]["frees"] == "40 zombies, 4 KiB"
    assert now["remedy"]["do_it"] == "sudo zombiescope apply --yes --consent stop:a"
    assert "nic-reset" in [lane["id"] for lane in found["/api/v1/events"]["lanes"]]
    words = page[page.index("<noscript>") : page.index("</noscript>")]
    assert "restarts every 10 s" in words


def hostile() -> Case:
    left = {f"unit:{HOSTILE}": ("page_cache", 3000)}
    return case(3000, left=left, services=services(loop(HOSTILE, why=HOSTILE)))


def test_a_strangers_name_stays_a_name() -> None:
    page = doctor_page(report(hostile()))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert HOSTILE in json.dumps(inside(page)).replace('\\"', '"')
    assert Tags(page).open == []
    ticket = render_doctor_markdown(report(hostile()))
    assert "<script" not in ticket.replace(r"\<script", "")


def test_a_ticket_tells_the_chain_the_plan_and_the_evidence() -> None:
    text = render_doctor_markdown(report(BUILT["incident"]()))
    assert text.startswith("# `ecs.service` restarts every 10 s")
    assert "`zombie-population` ← `pinned-page-cache` ← `crash-looping-unit`" in text
    assert "1. stop a.service (risk low, undo restart, frees 40 zombies)" in text
    assert "- `cpu-steal` absent:" in text
    assert code("a`b") == "`` a`b ``"


def test_failures_that_follow_are_told_with_their_numbers(tmp_path: Path) -> None:
    file = tmp_path / "failures"
    file.write_text("# jobs\n" + "\n".join(f"{NOW - 60 * age + 40} job" for age in (50, 30, 9, 300, 700)))
    told = report(BUILT["incident"](), Past(bytes(file)))
    found = {(each.cause, each.effect): each for each in told.correlations}
    pair = found["nic reset", "job failure"]
    assert (pair.cases, pair.preceded) == (5, 3)
    assert pair.p_value is not None
    document = render_report(told)
    assert document["correlations"][-1]["cases"] == 5
    gaps = {gap["fact"] for gap in document["gaps"]}
    assert {field for field in null_fields(document) if field not in gaps} == set()


def test_what_to_do_first_is_said_in_words() -> None:
    """Of every remedy that a rule can name, with and without a plan."""
    incident = diagnose(BUILT["incident"]())
    assert incident.origin == STOP.finding
    assert told_first(incident, PLAN) == "stop a.service (frees 40 zombies): zombiescope apply"
    assert told_first(incident, Gap("plan", "recorded")) == "stop ecs.service and keep it from starting again"
    for label in read_labels().values():
        found = diagnosis_of(label.name)
        assert found is not None
        words = told_first(found, Gap("plan", "recorded"))
        assert bool(words) == (label.first_remedy != "none")
        assert words.split(" (")[0] != label.first_remedy, "an id is no sentence"


def test_a_plan_that_could_not_be_made_is_a_gap() -> None:
    document = render_report(report(BUILT["sockets"](), plan=Gap("plan", "recorded")))
    assert document["plan"] is None
    assert ("plan", "recorded") in {(gap["fact"], gap["reason"]) for gap in document["gaps"]}
