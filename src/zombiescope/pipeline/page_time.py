# SPDX-License-Identifier: Apache-2.0
"""Questions of the page about time, from the history alone: which series there are, and a range of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from zombiescope.analysis.downsampling import Buckets
from zombiescope.analysis.recall import Pause, pauses
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import UsageError
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Sample
from zombiescope.facts.series import Series, SeriesKind, describe, lane_order, lane_title
from zombiescope.history.ranges import Ranges
from zombiescope.history.summaries import SLOT_SECONDS, SLOTS

Json = dict[str, Any]
Query = Mapping[str, str]
MOST_POINTS, USUAL_POINTS = 2_000, 600
_MOST_SERIES = 200
_COARSE_FROM = 150.0
"""Seconds to a stretch, from which on the slots of five minutes are fine enough."""
_RAW_SAMPLES = 1.5
"""To a stretch, below which every sample is given as it is."""
MINUTE = 60.0
DAY = 86_400.0
_ONE_BY_ONE = 2 * DAY
_WHY_DOWN, _WHY_AWAY = "the host was down", "the agent was not running"


class Asked(NamedTuple):
    begin: float
    end: float
    points: int


def series(folder: bytes, limits: Thresholds) -> Json:
    ranges = Ranges(folder)
    span = ranges.span()
    found = sorted(map(describe, ranges.names()), key=lambda each: (lane_order(each.lane), each.name))
    lanes = dict.fromkeys(each.lane for each in found)
    return {
        "schema": "zombiescope.series/1",
        "from": span[0] if span else None,
        "to": span[1] if span else None,
        "series": [_described(each, number, limits) for number, each in enumerate(found)],
        "lanes": [{"id": lane, "title": lane_title(lane), "order": lane_order(lane)} for lane in lanes],
        "gaps": rendered_gaps(ranges.gaps),
    }


def _described(each: Series, number: int, limits: Thresholds) -> Json:
    marks = []
    if each.name == "zombies":
        marks = [
            {
                "value": limits.zombies_warning,
                "severity": "warning",
                "words": f"warning from {limits.zombies_warning:,}",
            },
            {
                "value": limits.zombies_critical,
                "severity": "critical",
                "words": f"critical from {limits.zombies_critical:,}",
            },
        ]
    return {
        "name": each.name,
        "title": each.title,
        "unit": each.unit,
        "kind": each.kind,
        "maximum": each.maximum,
        "lane": each.lane,
        "order": number,
        "default": each.is_usual,
        "limits": marks,
    }


def range_of(folder: bytes, query: Query) -> Json:
    ranges = Ranges(folder)
    asked = asked_of(query, ranges.span())
    names = names_in(query, ranges)
    is_raw, found = thinned(ranges, asked, names)
    step = (asked.end - asked.begin) / asked.points
    return {
        "schema": "zombiescope.range/1",
        "from": asked.begin,
        "to": asked.end,
        "step": step,
        "points": asked.points,
        "raw": is_raw,
        "series": found,
        "pauses": [
            {"from": each.since, "to": each.until, "why": _WHY_DOWN if each.is_reboot else _WHY_AWAY}
            for each in pauses_in(ranges, asked)
        ],
        "gaps": rendered_gaps(ranges.gaps),
    }


def names_in(query: Query, ranges: Ranges) -> list[str]:
    known = ranges.names()
    asked = [name for name in query.get("series", "").split(",") if name]
    if not asked:
        return [name for name in known if describe(name).is_usual][:_MOST_SERIES]
    wanted: dict[str, None] = {}
    for name in asked[:_MOST_SERIES]:
        stem = name.removesuffix("*")
        wanted |= dict.fromkeys(each for each in known if each == name or (stem != name and each.startswith(stem)))
    return list(wanted)[:_MOST_SERIES]


def thinned(ranges: Ranges, asked: Asked, names: Iterable[str]) -> tuple[bool, Json]:
    wanted = frozenset(names)
    counters = frozenset(name for name in wanted if describe(name).kind is SeriesKind.COUNT)
    buckets = Buckets(asked.begin, asked.end, asked.points, counters)
    if buckets.step >= _COARSE_FROM:
        bucketed(ranges, buckets, wanted)
        return False, _thin(buckets, names)
    columns = list(ranges.columns(asked.begin - 2 * MINUTE, asked.end + MINUTE, wanted))
    samples = sum(asked.begin <= at <= asked.end for each in columns for at in each.times)
    if samples <= _RAW_SAMPLES * asked.points:
        return True, _raw(columns, asked, names, counters)
    for each in columns:
        buckets.take(each.boot, each.times, each.values)
    return False, _thin(buckets, names)


def bucketed(ranges: Ranges, buckets: Buckets, wanted: frozenset[str]) -> None:
    """Of a long range its slots, of a short one its samples."""
    begin, end = buckets.begin, buckets.begin + buckets.step * buckets.points
    if buckets.step >= _COARSE_FROM:
        for slots in ranges.slots(begin - SLOT_SECONDS * SLOTS, end, wanted):
            buckets.take_slots(slots.boot, slots.begin, SLOT_SECONDS, slots.low, slots.high)
        return
    for each in ranges.columns(begin - 2 * MINUTE, end, wanted):
        buckets.take(each.boot, each.times, each.values)


def _thin(buckets: Buckets, names: Iterable[str]) -> Json:
    found: Json = {}
    for name in names:
        thin = buckets.thin(name)
        if thin is None:
            continue
        low, high = _short(thin.low), _short(thin.high)
        found[name] = {"low": low, "high": high} if low != high else {"value": low}
    return found


def _raw(columns: Iterable[Any], asked: Asked, names: Iterable[str], counters: frozenset[str]) -> Json:
    """Every sample; a pause shows as one without a value."""
    found: Json = {name: {"at": [], "value": []} for name in names}
    before: dict[str, tuple[str, float, float]] = {}
    for each in columns:
        for name, column in each.values.items():
            row = found[name]
            for at, value in zip(each.times, column, strict=True):
                shown = value
                if value is not None and name in counters:
                    known = before.get(name)
                    before[name] = (each.boot, at, value)
                    shown = None
                    if known and known[0] == each.boot and 0 < at - known[1] <= 2 * MINUTE:
                        more = value - known[2]
                        shown = (more if more >= 0 else max(value, 0.0)) / (at - known[1])
                if asked.begin <= at <= asked.end:
                    if row["at"] and at - row["at"][-1] > 2 * MINUTE:
                        row["at"].append(round((at + row["at"][-1]) / 2, 3))
                        row["value"].append(None)
                    row["at"].append(round(at, 3))
                    row["value"].append(rounded(shown))
    return {name: row for name, row in found.items() if row["at"]}


def rounded(value: float | None) -> float | None:
    if value is None:
        return None
    return int(value) if value == int(value) else float(f"{value:.5g}")


def _short(values: Iterable[float | None]) -> list[float | None]:
    return [rounded(value) for value in values]


def pauses_in(ranges: Ranges, asked: Asked) -> tuple[Pause, ...]:
    """When nobody watched. Of a long range, those between two hours alone: a shorter one has no value in its slots."""
    if asked.end - asked.begin <= _ONE_BY_ONE:
        moments = [
            Sample(0, at, each.boot, {})
            for each in ranges.columns(asked.begin, asked.end, frozenset())
            for at in each.times
            if asked.begin <= at <= asked.end
        ]
        return pauses(moments)
    return tuple(
        Pause(before.until, after.begin, before.boot != after.boot)
        for before, after in pairwise(ranges.bounds(asked.begin, asked.end))
        if after.begin - before.until > 2 * MINUTE or before.boot != after.boot
    )


def asked_of(query: Query, span: tuple[float, float] | None) -> Asked:
    """Without a beginning and an end: the last day of what is kept."""
    last = span[1] if span else 0.0
    end = _number(query.get("to", ""), last)
    begin = _number(query.get("from", ""), end - DAY)
    points = int(_number(query.get("points", ""), USUAL_POINTS))
    if not begin < end:
        raise UsageError("cannot show this range", "it ends before it begins", "from=BEGIN&to=END, in seconds")
    return Asked(begin, end, min(max(points, 1), MOST_POINTS))


def _number(text: str, otherwise: float) -> float:
    if not text:
        return otherwise
    try:
        value = float(text)
    except ValueError as error:
        raise UsageError("cannot read the range", "it is no number", "seconds since the epoch") from error
    if not abs(value) < 1e12:
        raise UsageError("cannot show this range", "it is outside of any calendar", "seconds since the epoch")
    return value


def rendered_gaps(gaps: Iterable[Gap]) -> list[Json]:
    return [{"fact": gap.fact, "reason": gap.reason, "hint": gap.hint} for gap in dict.fromkeys(gaps)]
