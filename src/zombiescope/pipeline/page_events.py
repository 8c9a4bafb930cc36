# SPDX-License-Identifier: Apache-2.0
"""Questions of the page about what happened, from the history: events in lanes, two ranges side by side, what follows what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from zombiescope.facts.history import FINDING_SEVERITY, Happening, Interval, Timeline, describe
from zombiescope.history.reader import Ranges
from zombiescope.pipeline.page_time import (
    DAY,
    USUAL_POINTS,
    Asked,
    asked_of,
    names_in,
    pauses_in,
    rendered_gaps,
    rounded,
    thinned,
)
from zombiescope.pipeline.timeline import IN_HISTORY, correlate, told_apart, without
from zombiescope.presenters.doctor_report import render_follows

Json = dict[str, Any]
Query = Mapping[str, str]
_MOST_MARKS = 2_000


def events(folder: bytes, query: Query) -> Json:
    ranges = Ranges(folder)
    asked = asked_of(query, ranges.span())
    happenings = ranges.happenings(asked.begin - 40 * DAY, asked.end)
    lanes = [_findings(happenings, asked)]
    for lane, title, kinds in _LANES:
        inside = [each for each in happenings if each.what in kinds and asked.begin <= each.at <= asked.end]
        lanes.append(_marks(lane, title, inside, asked))
    known = {kind for _, _, kinds in _LANES for kind in kinds} | {"finding-present", "finding-gone", FINDING_SEVERITY}
    for what in dict.fromkeys(each.what for each in happenings if each.what not in known):
        inside = [each for each in happenings if each.what == what and asked.begin <= each.at <= asked.end]
        lanes.append(_marks(what, describe(what.replace("-", "_")).title, inside, asked))
    return {
        "schema": "zombiescope.events/1",
        "from": asked.begin,
        "to": asked.end,
        "lanes": lanes,
        "gaps": rendered_gaps(ranges.gaps),
    }


_LANES = (
    ("nic-reset", "Network resets", ("nic-reset",)),
    ("core-saturated", "Saturated stretches", ("core-saturated",)),
    ("stat-sweep", "Long sweeps", ("stat-sweep",)),
    ("reclaim-pass", "Long reclaim", ("reclaim-pass",)),
    ("unit-restarted", "Restarts", ("unit-restarted",)),
    ("agent", "Agent", ("agent-began", "agent-ended", "configuration-read", "clock-jumped", "store-damaged")),
)


def _marks(lane: str, title: str, inside: list[Happening], asked: Asked) -> Json:
    found: Json = {"id": lane, "title": title, "kind": "marks", "count": len(inside)}
    if len(inside) <= _MOST_MARKS:
        return {**found, "marks": [[each.at, _told(each)] for each in inside]}
    points = min(asked.points, USUAL_POINTS)
    step = (asked.end - asked.begin) / points
    counts = [0] * points
    for each in inside:
        counts[min(int((each.at - asked.begin) // step), points - 1)] += 1
    return {**found, "bins": {"step": step, "counts": counts}}


def _told(each: Happening) -> str:
    return (
        f"{each.what}: {each.detail}"
        if each.what.startswith(("agent", "configuration", "clock", "store"))
        else each.detail
    )


class _Findings:
    """From when each came, or became so severe, to when that ended; an agent that began anew says anew what is there."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._open: dict[str, tuple[float, str, str | None]] = {}
        """Since when, its words, and how severe it is."""
        self.rows: list[Json] = []

    def take(self, each: Happening) -> None:
        name, _, words = each.detail.partition(": ")
        if each.what == "finding-present":
            self._open.setdefault(name, (each.at, words, None))
        elif each.what == FINDING_SEVERITY and name in self._open:
            since, said, before = self._open[name]
            if before not in (None, words):
                self._close(name, each.at)
                since = each.at
            self._open[name] = (since, said, words)
        elif each.what == "finding-gone":
            self._close(name, each.at)
        elif each.what == "agent-ended":
            self.end(each.at)

    def end(self, at: float) -> None:
        for name in list(self._open):
            self._close(name, at)

    def _close(self, name: str, at: float) -> None:
        if name not in self._open:
            return
        since, words, severity = self._open.pop(name)
        if at >= self._asked.begin and since <= self._asked.end:
            self.rows.append(
                {
                    "id": name,
                    "from": max(since, self._asked.begin),
                    "to": min(at, self._asked.end),
                    "severity": severity,
                    "words": words,
                }
            )


def _findings(happenings: Iterable[Happening], asked: Asked) -> Json:
    found = _Findings(asked)
    for each in happenings:
        found.take(each)
    found.end(asked.end)
    return {"id": "findings", "title": "Findings", "kind": "stretches", "rows": found.rows}


def compare(folder: bytes, query: Query) -> Json:
    """Two ranges side by side, of each series the last value and the mean; None where one side is not known."""
    ranges = Ranges(folder)
    sides = {}
    for side in ("a", "b"):
        begin, _, end = query.get(side, "").partition("..")
        sides[side] = asked_of({"from": begin, "to": end, "points": "60"}, None)
    names = names_in(query, ranges)
    told = {side: _figures(ranges, asked, names) for side, asked in sides.items()}
    rows = []
    for name in names:
        one, other = told["a"].get(name), told["b"].get(name)
        if one is None and other is None:
            continue
        each = describe(name)
        rows.append({"name": name, "title": each.title, "unit": each.unit, "kind": each.kind, "a": one, "b": other})
    counted = {side: _counted(ranges, asked) for side, asked in sides.items()}
    return {
        "schema": "zombiescope.compare/1",
        **{side: {"from": asked.begin, "to": asked.end} for side, asked in sides.items()},
        "rows": rows,
        "events": [
            {"id": lane, "title": title, "a": counted["a"].get(lane, 0), "b": counted["b"].get(lane, 0)}
            for lane, title, _ in _LANES
        ],
        "gaps": rendered_gaps(ranges.gaps),
    }


def _figures(ranges: Ranges, asked: Asked, names: list[str]) -> dict[str, Json]:
    found = thinned(ranges, asked, names)
    told = {}
    for name, row in found.items():
        lows = row.get("low") or row.get("value")
        highs = row.get("high") or row.get("value")
        low, high = _known(lows), _known(highs)
        if low:
            mean = sum((one + other) / 2 for one, other in zip(low, high, strict=True)) / len(low)
            told[name] = {
                "last": high[-1],
                "mean": rounded(mean),
                "low": min(low),
                "high": max(high),
                "known": round(len(low) / max(len(lows), 1), 3),
            }
    return told


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _counted(ranges: Ranges, asked: Asked) -> Mapping[str, int]:
    lanes = {kind: lane for lane, _, kinds in _LANES for kind in kinds}
    return Counter(lanes[each.what] for each in ranges.happenings(asked.begin, asked.end) if each.what in lanes)


def follows(folder: bytes, query: Query) -> Json:
    """What follows what in a range, tested against chance."""
    ranges = Ranges(folder)
    asked = asked_of(query, ranges.span())
    body = {
        "schema": "zombiescope.follows/1",
        "from": asked.begin,
        "to": asked.end,
        "rows": render_follows(correlate(_timeline(ranges, asked))),
    }
    return {**body, "gaps": rendered_gaps(ranges.gaps)}


def _timeline(ranges: Ranges, asked: Asked) -> Timeline:
    bounds = ranges.bounds(asked.begin, asked.end)
    watched: tuple[Interval, ...] = ()
    if bounds:
        watched = (Interval(max(bounds[0].begin, asked.begin), min(bounds[-1].until, asked.end)),)
        watched = without(watched, (Interval(pause.since, pause.until) for pause in pauses_in(ranges, asked)))
    marks, holes = told_apart(each for each in ranges.happenings(asked.begin, asked.end) if each.what in IN_HISTORY)
    seen = {what: without(watched, holes.get(what, ())) for what in IN_HISTORY.values()}
    return Timeline(asked.begin, asked.end, tuple(sorted(chain.from_iterable(marks.values()))), seen)
