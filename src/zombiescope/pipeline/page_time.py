# SPDX-License-Identifier: Apache-2.0
"""Questions of the page about time, from the history alone: which series there are, a range of them, and which core was held by
whom: the share of kernel time of every core over a range, the worst first, and its saturated stretches."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from zombiescope.analysis.downsampling import Buckets
from zombiescope.analysis.recall import Pause
from zombiescope.analysis.trend import median
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import UsageError
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import CORE_PREFIX, Series, SeriesKind, describe, lane_order, lane_title
from zombiescope.history.reader import Columns, Ranges
from zombiescope.history.summaries import SLOT_SECONDS, SLOTS

Json = dict[str, Any]
Query = Mapping[str, str]
MOST_POINTS, USUAL_POINTS = 2_000, 600
_MOST_SERIES = 200
_COARSE_FROM = 150.0
"""Seconds to a stretch, from which on the slots of five minutes are fine enough."""
_RAW_SAMPLES = 1.5
"""To a stretch, below which every sample is given as it is."""
_SLOTS_TO_A_STRETCH = (1, 2, 3, 4, 6, 12, 24, 72, 168)
MINUTE = 60.0
DAY = 86_400.0
_ONE_BY_ONE = 2 * DAY
_WHY_DOWN, _WHY_AWAY = "the host was down", "the agent was not running"


class Asked(NamedTuple):
    begin: float
    end: float
    points: int

    @property
    def step(self) -> float:
        return (self.end - self.begin) / self.points

    def aligned(self) -> Asked:
        """On the slots that hours are kept in, where that is fine enough: each slot then lies in one stretch."""
        if self.step < _COARSE_FROM:
            return self
        slots = max(number for number in _SLOTS_TO_A_STRETCH if number * SLOT_SECONDS <= max(self.step, SLOT_SECONDS))
        step = slots * SLOT_SECONDS
        while (self.end - self.begin) / step > MOST_POINTS:
            step *= 2
        begin = self.begin // step * step
        points = max(-int((begin - self.end) // step), 1)
        return Asked(begin, begin + points * step, points)


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
    asked = asked.aligned()
    is_raw, found, away = _read(ranges, asked, names)
    return {
        "schema": "zombiescope.range/1",
        "from": asked.begin,
        "to": asked.end,
        "step": asked.step,
        "points": asked.points,
        "raw": is_raw,
        "series": found,
        "pauses": [
            {"from": each.since, "to": each.until, "why": _WHY_DOWN if each.is_reboot else _WHY_AWAY} for each in away
        ],
        "gaps": rendered_gaps(ranges.gaps),
    }


def names_in(query: Query, ranges: Ranges) -> list[str]:
    known = ranges.names()
    asked = [name for name in query.get("series", "").split(",") if name]
    if not asked:  # rows of a heat lane are another question
        described = [describe(name) for name in known]
        return [each.name for each in described if each.is_usual and each.kind is not SeriesKind.HEAT][:_MOST_SERIES]
    wanted: dict[str, None] = {}
    for name in asked[:_MOST_SERIES]:
        stem = name.removesuffix("*")
        wanted |= dict.fromkeys(each for each in known if each == name or (stem != name and each.startswith(stem)))
    return list(wanted)[:_MOST_SERIES]


def thinned(ranges: Ranges, asked: Asked, names: Iterable[str]) -> Json:
    """By series: its low and high in each stretch, or every sample where there are not more."""
    return _read(ranges, asked.aligned(), names)[1]


def _read(ranges: Ranges, asked: Asked, names: Iterable[str]) -> tuple[bool, Json, tuple[Pause, ...]]:
    """Whether every sample is given, the series, and when nobody watched."""
    wanted = frozenset(names)
    counters = frozenset(name for name in wanted if describe(name).kind is SeriesKind.COUNT)
    buckets = Buckets(asked.begin, asked.end, asked.points, counters)
    if buckets.step >= _COARSE_FROM:
        bucketed(ranges, buckets, wanted)
        return False, _thin(buckets, names), pauses_in(ranges, asked)
    columns = list(ranges.columns(asked.begin - 2 * MINUTE, asked.end + MINUTE, wanted))
    away = tuple(_pauses_of(columns, asked))
    samples = sum(bisect_right(each.times, asked.end) - bisect_left(each.times, asked.begin) for each in columns)
    if samples <= _RAW_SAMPLES * asked.points:
        return True, _raw(columns, asked, names, counters), away
    for each in columns:
        buckets.take(each.boot, each.times, each.values)
    return False, _thin(buckets, names), away


def _pauses_of(columns: Iterable[Columns], asked: Asked) -> Iterator[Pause]:
    """Longer than five times the usual step between two samples, and than a minute; and whenever the host began anew."""
    before: tuple[str, float] | None = None
    for each in columns:
        times = each.times
        if not times:
            continue
        usual = median([later - earlier for earlier, later in pairwise(times[:50])]) if len(times) > 1 else 0.0
        most = max(5 * usual, MINUTE)
        for earlier, later in pairwise([*([before[1]] if before else []), *times]):
            is_reboot = before is not None and before[0] != each.boot
            if (later - earlier > most or is_reboot) and earlier < asked.end and later > asked.begin:
                yield Pause(earlier, later, is_reboot)
            before = (each.boot, later)


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
    return None if value is None else round(value, 6)


def _short(values: Iterable[float | None]) -> list[float | None]:
    """Whole numbers as such: most are, and rounding is what takes the time."""
    return [None if value is None else int(value) if value == value // 1 else round(value, 6) for value in values]


def pauses_in(ranges: Ranges, asked: Asked) -> tuple[Pause, ...]:
    """When nobody watched. Of a long range, those between two hours alone: a shorter one has no value in its slots."""
    if asked.end - asked.begin <= _ONE_BY_ONE:
        return tuple(_pauses_of(ranges.columns(asked.begin, asked.end, frozenset()), asked))
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


_MOST_STRETCHES = 2_000
_WORDS = re.compile(r"core (?P<core>\d+): (?P<least>at least )?(?P<seconds>[0-9.]+) s, (?P<share>\d+)% (?P<mode>\w+)")


def cores(folder: bytes, query: Mapping[str, str]) -> Json:
    ranges = Ranges(folder)
    asked = asked_of(query, ranges.span()).aligned()
    names = [name for name in ranges.names() if name.startswith(CORE_PREFIX)]
    buckets = Buckets(asked.begin, asked.end, asked.points)
    bucketed(ranges, buckets, frozenset(names))
    stretches = _stretches(ranges, asked.begin, asked.end)
    by_core: dict[str, float] = {}
    for each in stretches:
        by_core[str(each["core"])] = by_core.get(str(each["core"]), 0.0) + each["seconds"]
    rows: list[Json] = []
    for name in names:
        thin = buckets.thin(name)
        label = name.removeprefix(CORE_PREFIX)
        share = [None if value is None else round(value / 100, 3) for value in thin.high] if thin else []
        known = [value for value in share if value is not None]
        members = _members(label)
        rows.append(
            {
                "core": members[0],
                "cores": members,
                "label": f"core {label}" if len(members) == 1 else f"cores {label}",
                "share": share,
                "mean": round(sum(known) / len(known), 4) if known else None,
                "saturated_seconds": round(sum(by_core.get(str(member), 0.0) for member in members), 3),
            }
        )
    rows.sort(key=lambda row: (-row["saturated_seconds"], -(row["mean"] or 0.0), row["core"]))
    folded = max((len(row["cores"]) for row in rows), default=1)
    return {
        "schema": "zombiescope.heat/1",
        "from": asked.begin,
        "to": asked.end,
        "step": buckets.step,
        "cores": rows,
        "stretches": stretches[-_MOST_STRETCHES:],
        "stretches_in_all": len(stretches),
        "folded": f"{folded} cores in a row: the highest of them" if folded > 1 else None,
        "gaps": rendered_gaps(ranges.gaps) + ([] if names else [_NO_CORES]),
    }


_NO_CORES = {
    "fact": "cores",
    "reason": "this history was kept by an agent that did not remember single cores",
    "hint": "the agent of this version does",
}


def _members(label: str) -> list[int]:
    first, _, last = label.partition("-")
    if not first.isdecimal() or (last and not last.isdecimal()):
        return [0]
    return list(range(int(first), int(last or first) + 1))[:4096]


def _stretches(ranges: Ranges, begin: float, end: float) -> list[Json]:
    found = []
    for each in ranges.happenings(begin, end):
        match = _WORDS.match(each.detail) if each.what == "core-saturated" else None
        if match:
            found.append(
                {
                    "core": int(match["core"]),
                    "from": each.at,
                    "seconds": float(match["seconds"]),
                    "is_cut": bool(match["least"]),
                    "share": int(match["share"]) / 100,
                    "mode": match["mode"],
                    "words": each.detail,
                }
            )
    return found
