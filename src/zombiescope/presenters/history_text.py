# SPDX-License-Identifier: Apache-2.0
"""What the agent remembers, for a person: a sentence, sparklines, makers, forecast, what happened."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from zombiescope.analysis.growth import Forecast, Growth
from zombiescope.analysis.recall import Pause, Recall
from zombiescope.analysis.trend import Point
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import MAKER_PREFIX, Happening, Sample
from zombiescope.presenters.document import rfc3339
from zombiescope.presenters.figures import duration

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 20
_MOST_SERIES = 20
_MOST_EVENTS = 12
_MARKS = {"memory": "5 % of memory"}
_UNSHOWN = frozenset({"uptime"})


def render_history_text(
    recall: Recall | None, happenings: Sequence[Happening], moment: Sample | None, gaps: Sequence[Gap]
) -> list[RenderableType]:
    if recall is None:
        return [Text("nothing is remembered of that time")]
    span = f"{rfc3339(recall.since)[:19]} to {rfc3339(recall.until)[:19]} UTC"
    boots = f", {recall.boots} boots" if recall.boots > 1 else ""
    parts: list[RenderableType] = [
        Text(f"{recall.samples:,} samples, {span}{boots}"),
        Text(growth_sentence(recall.growth), style="bold"),
    ]
    parts += [Text(line) for line in _clock(recall.growth)]
    parts.append(_moment(moment) if moment else _table(recall))
    if recall.pauses:
        parts.append(Text("nobody watched: " + ", ".join(map(_pause, recall.pauses[-5:]))))
    if happenings:
        parts.append(_events(happenings))
    parts += [Text(f"gap: {gap.fact}: {gap.reason}") for gap in gaps]
    return parts


def growth_sentence(growth: Growth | None) -> str:
    if growth is None or growth.total is None:
        return "too little is remembered to tell growth from noise"
    trend = growth.total
    per_hour = trend.slope.per_second * 3600
    if trend.slope.low <= 0:
        return f"{trend.now:,} zombies, not growing (slope {per_hour:+.1f} an hour, within its range of nought)"
    began = (
        f"since {_moment_of(trend.since, growth.at)}"
        if trend.is_since_seen
        else f"for at least {duration(growth.at - trend.since)}"
    )
    who = f", most by {growth.makers[0].maker}" if growth.makers and growth.makers[0].maker else ""
    low, high = trend.slope.low * 3600, trend.slope.high * 3600
    return f"{trend.now:,} zombies, {per_hour:.1f} more an hour ({low:.1f} to {high:.1f}) {began}{who}"


def _moment_of(at: float, now: float) -> str:
    """The time of day, and the day where it is another one."""
    text = rfc3339(at)
    return text[11:16] if text[:10] == rfc3339(now)[:10] else f"{text[:10]} {text[11:16]}"


def _pause(pause: Pause) -> str:
    length = f"for {duration(pause.until - pause.since)}" if pause.until > pause.since else "while the clock went back"
    return f"{rfc3339(pause.since)[:16].replace('T', ' ')} {length}{' (reboot)' if pause.is_reboot else ''}"


def _clock(growth: Growth | None) -> list[str]:
    if growth is None or growth.total is None:
        return []
    lines = []
    if growth.total.slope.low > 0:
        lines.append(f"1,000 more in {duration(1000 / growth.total.slope.per_second)}")
    lines += [
        f"{_MARKS.get(each.what, each.what)} ({each.mark:,.0f} zombies) in {_range(each)}" for each in growth.forecasts
    ]
    if growth.ids:
        lines.append(
            f"the kernel's {growth.ids.mark:,.0f} ids are used up in {_range(growth.ids)}: then no cgroup can be made"
        )
    if growth.onset:
        shortest, longest = min(growth.onset.seconds), max(growth.onset.seconds)
        times = len(growth.onset.seconds)
        reboots = f"each of the last {times} boots" if times > 1 else "the one boot that reached it"
        spans = list(dict.fromkeys((duration(shortest), duration(longest))))
        lines.append(f"after {reboots} {growth.onset.mark:,} was reached in {' to '.join(spans)}")
    return lines


def _range(forecast: Forecast) -> str:
    if forecast.latest_seconds is None:
        return f"{duration(forecast.soonest_seconds)} at the soonest"
    spans = dict.fromkeys((duration(forecast.soonest_seconds), duration(forecast.latest_seconds)))
    return " to ".join(spans)


def sparkline(points: Sequence[Point], width: int = _WIDTH) -> str:
    """The highest value of each slice of time; a slice without a sample is a space."""
    if not points:
        return ""
    start, end = points[0][0], points[-1][0]
    slices: list[float | None] = [None] * width
    for at, value in points:
        index = min(int((at - start) / (end - start) * width), width - 1) if end > start else 0
        index = max(index, 0)
        slices[index] = value if slices[index] is None else max(value, slices[index] or value)
    values = [value for _, value in points]
    low, high = min(values), max(values)
    return "".join(
        " " if v is None else _BARS[round((v - low) / (high - low) * 7) if high > low else 0] for v in slices
    )


def _table(recall: Recall) -> Table:
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("series", overflow="ellipsis", no_wrap=True, ratio=1)
    table.add_column("", no_wrap=True, min_width=_WIDTH)
    for title in ("first", "last", "least", "most"):
        table.add_column(title, justify="right", no_wrap=True, min_width=5)
    ordered = sorted(
        (series for series in recall.series if series.name not in _UNSHOWN),
        key=lambda each: (each.name.startswith(MAKER_PREFIX), -each.last if each.name.startswith(MAKER_PREFIX) else 0),
    )
    for series in ordered[:_MOST_SERIES]:
        values = [value for _, value in series.points]
        figures = (values[0], values[-1], min(values), max(values))
        table.add_row(Text(series.name), sparkline(series.points), *(f"{value:,.10g}" for value in figures))
    return table


def _moment(moment: Sample) -> Table:
    table = Table(title=f"as it was at {rfc3339(moment.at)}", box=None, pad_edge=False, title_justify="left")
    table.add_column("series")
    table.add_column("value", justify="right")
    for name, value in moment.values.items():
        table.add_row(Text(name), f"{value:,.10g}")
    return table


def _events(happenings: Sequence[Happening]) -> Table:
    table = Table(title="events", box=None, pad_edge=False, title_justify="left", show_header=False)
    for each in happenings[-_MOST_EVENTS:]:
        table.add_row(rfc3339(each.at)[:19], Text(each.what), Text(each.detail))
    return table
