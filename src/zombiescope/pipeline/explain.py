# SPDX-License-Identifier: Apache-2.0
"""Offline pages about every finding, kind of pin, metric and gap: words from what findings declare and from `data/explain.toml`,
numbers and names from thresholds, levers and metrics themselves. And whole pages of documentation, as they are (`data/*.md`)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from shlex import quote
from typing import Any, NamedTuple

from zombiescope.analysis.freeing import actions_on, least_harm_first
from zombiescope.diagnosis.catalogue import FINDINGS
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import UsageError
from zombiescope.facts.metric_names import METRICS, PREFIX, REAP_LEFT, REAP_STATE, REAPER_FIGURES, Metric
from zombiescope.facts.zombies import Pin, PinKind
from zombiescope.host.safe_open import read_shipped
from zombiescope.pipeline.mistyped import nearest

KINDS = ("page", "finding", "pin", "metric", "gap")
DOCUMENTS = {"runbook": "zombiescope doctor", "decision-matrix": "zombiescope explain runbook"}
"""Pages of docs/guides that ship with the package, and what to type after reading one."""
_ALL_METRICS = (*METRICS, *REAPER_FIGURES, REAP_STATE, REAP_LEFT)


class Page(NamedTuple):
    word: str
    kind: str
    title: str
    rows: tuple[tuple[str, str], ...]
    next: str
    """What to type."""


class Library:
    """Everything that can be explained."""

    def __init__(self) -> None:
        self._told: dict[str, Any] = tomllib.loads(read_shipped("explain.toml").decode())

    def words(self) -> dict[str, list[str]]:
        """By kind, in the order of their catalogues."""
        gaps = [fact for gap in self._told["gap"] for fact in gap["facts"]]
        return {
            "page": list(DOCUMENTS),
            "finding": list(FINDINGS),
            "pin": [str(kind) for kind in PinKind],
            "metric": [metric.name for metric in _ALL_METRICS],
            "gap": gaps,
        }

    @staticmethod
    def document(word: str) -> str | None:
        """The Markdown of a page of the documentation."""
        return read_shipped(f"{word}.md").decode() if word in DOCUMENTS else None

    def pages(self, word: str) -> list[Page]:
        """Every page that a word may mean. Raises UsageError with the nearest word."""
        found = [*self._findings(word), *self._pins(word), *self._metrics(word)]
        if page := self._gap(word):
            found.append(page)
        if found:
            return found
        near = nearest(word, [each.removeprefix(PREFIX) for kind in self.words().values() for each in kind])
        hint = f"zombiescope explain {quote(near)}" if near else "zombiescope explain"
        why = "it is not a page, a finding, a kind of pin, a metric or a gap"
        raise UsageError(f"nothing is known about {word!r}", why, hint)

    @staticmethod
    def _findings(word: str) -> Iterator[Page]:
        told = FINDINGS.get(word)
        if told is None:
            return
        limits = Thresholds()._asdict()
        rows = [("what it means", told.what), ("why it matters", told.matters), ("what to do", told.do)]
        if told.judged_by:
            rows.append(("judged by", ", ".join(f"{name} = {_figure(limits[name])}" for name in told.judged_by)))
        if told.explained_by:
            rows.append(("may come from", ", ".join(told.explained_by)))
        if told.pins:
            rows.append(("kinds of pin", ", ".join(sorted(told.pins))))
        yield Page(word, "finding", told.title, tuple(rows), told.next)

    def _pins(self, word: str) -> Iterator[Page]:
        name = word.replace("-", "_").replace(" ", "_")
        if name not in set(PinKind):
            return
        told, kind = self._told["pin"][name], PinKind(name)
        rows = [("freed by" if not number else "", each) for number, each in enumerate(_levers(kind))]
        if more := told.get("also"):
            rows.append(("also", more))
        rows.append(("does not help", told["vain"]))
        rows.append(("finding", next((each.id for each in FINDINGS.values() if name in each.pins), "")))
        yield Page(name, "pin", told["what"], tuple(rows), "zombiescope autopsy --by pin")

    @staticmethod
    def _metrics(word: str) -> Iterator[Page]:
        for metric in _ALL_METRICS:
            if word in (metric.name, metric.name.removeprefix(PREFIX)):
                yield _metric_page(metric)

    def _gap(self, word: str) -> Page | None:
        """By its own name, or by that of what it is a part of: `plan.steps[].expected` is a `steps[].expected`."""
        parts = word.split(".")
        tails = [".".join(parts[number:]) for number in range(len(parts))]
        for name in (word, *tails, *(f"{tail}.x" for tail in tails)):
            for gap in self._told["gap"]:
                if any(name == fact or fnmatchcase(name, fact.replace("[", "[[]")) for fact in gap["facts"]):
                    rows = [("missing because, usually", gap["why"]), ("how to get it", gap["get"])]
                    return Page(word, "gap", gap["what"], tuple(rows), "zombiescope doctor")
        return None


def _metric_page(metric: Metric) -> Page:
    rows = [
        ("kind", str(metric.kind)),
        *([("labels", ", ".join(metric.labels))] if metric.labels else []),
        ("no sample", "absent means not known or nothing to report; it is never zero by default"),
    ]
    return Page(metric.name, "metric", metric.help, tuple(rows), "zombiescope export rules")


def _levers(kind: PinKind) -> list[str]:
    """With what each costs; least harm first."""
    named = Pin(kind, b"/x", b"/x", None, None, 1, 1, sampled=False, mapped=0 if kind is not PinKind.SWAP else None)
    return [
        f"{action.doing}; the cost: {action.cost}" for action in least_harm_first(dict.fromkeys(actions_on(named), 1))
    ]


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"
