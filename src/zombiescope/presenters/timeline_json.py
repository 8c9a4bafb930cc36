# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.events/1` and `zombiescope.follows/1` of a timeline: what happened in lanes, and what follows what."""

from __future__ import annotations

from collections.abc import Iterable

from zombiescope.analysis.correlation import Correlation
from zombiescope.facts.history import Timeline
from zombiescope.presenters.doctor_report import told_correlation
from zombiescope.presenters.document import Json

_MOST_MARKS = 2_000


def render_timeline(timeline: Timeline) -> Json:
    """The last marks of a lane, where there are very many."""
    lanes = []
    for kind in timeline.kinds:
        marks = [[mark.at, mark.detail] for mark in timeline.marks if mark.what == kind]
        watched = [list(each) for each in timeline.watched.get(kind, ())]
        lane = {"id": kind.replace(" ", "-"), "title": kind[:1].upper() + kind[1:], "kind": "marks"}
        lanes.append({**lane, "count": len(marks), "marks": marks[-_MOST_MARKS:], "watched": watched})
    body = {"schema": "zombiescope.events/1", "from": timeline.begin, "to": timeline.end, "lanes": lanes}
    return {**body, "gaps": []}


def render_follows(found: Iterable[Correlation]) -> list[Json]:
    return [
        {
            "cause": each.cause,
            "effect": each.effect,
            "cases": each.cases,
            "with_cause": each.preceded,
            "lift": each.lift,
            "p_value": each.p_value,
            "is_telling": each.is_telling,
            "words": told_correlation(each),
        }
        for each in found
    ]
