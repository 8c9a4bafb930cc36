# SPDX-License-Identifier: Apache-2.0
"""What the agent remembers, for a person: a sentence, sparklines, makers, forecast, what happened."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from zombiescope.analysis.growth import Forecast, Growth
from zombiescope.analysis.recall import ALL, Pause, Recall, Series
from zombiescope.analysis.trend import Point
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import MAKER_PREFIX, Happening, Sample
from zombiescope.presenters.document import rfc3339
from zombiescope.presenters.figures import duration

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 20
_MOST_MAKERS = 10
_MOST_EVENTS = 12
_MARKS = {"memory": "5 % of memory"}
_UNSHOWN = frozenset({"uptime"})
_SECONDS = "_seconds"


def render_history_text(
    recall: Recall | None, happenings: Sequence[Happening], moment: Sample | None, gaps: Sequence[Gap]
) -> list[RenderableType]:
    if recall is None:
        first = "nothing of that time could be read" if gaps else "nothing is remembered of that time"
        return [Text(first), *_gaps(gaps)]
    span = f"{rfc3339(recall.since)[:19]} to {rfc3339(recall.until)[:19]} UTC"
    boots = f", {recall.boots} boots" if recall.boots > 1 else ""
    parts: list[RenderableType] = [
        Text(f"{recall.samples:,} samples, {span}{boots}"),
        Text(growth_sentence(recall.growth, recall.risen, _last_total(recall)), style="bold"),
    ]
    parts += [Text(line) for line in _clock(recall.growth)]
    parts += [_moment(moment)] if moment else [_series(recall), *_makers(recall)]
    if recall.pauses:
        parts.append(Text("nobody watched: " + ", ".join(map(_pause, recall.pauses[-5:]))))
    if happenings:
        parts.append(_events(happenings))
    return [*parts, *_gaps(gaps)]


def _gaps(gaps: Sequence[Gap]) -> list[RenderableType]:
    return [Text(f"gap: {gap.fact}: {gap.reason}") for gap in gaps]


def growth_sentence(growth: Growth | None, risen: Sequence[tuple[str, int]] = (), last: int | None = None) -> str:
    """`last`: the number of zombies in the last sample, which stands in the rows below as well."""
    if growth is None or growth.total is None:
        return "too little is remembered to tell growth from noise"
    trend = growth.total
    now = trend.now if last is None else last
    per_hour = trend.slope.per_second * 3600
    if trend.slope.low <= 0:
        return f"{now:,} zombies, not growing (slope {per_hour:+.1f} an hour, within its range of nought)"
    began = (
        f"since {_moment_of(trend.since, growth.at)}"
        if trend.is_since_seen
        else f"for at least {duration(growth.at - trend.since)}"
    )
    who = _who(growth, risen)
    low, high = trend.slope.low * 3600, trend.slope.high * 3600
    return f"{now:,} zombies, {per_hour:.1f} more an hour ({low:.1f} to {high:.1f}) {began}{who}"


def _who(growth: Growth, risen: Sequence[tuple[str, int]]) -> str:
    """Who grows steadily, and who rose by more at once: neither is passed over for the other."""
    first = next((trend for trend in growth.makers if trend.maker), None)
    louder = next(iter(risen), None)
    if first is None:
        return f", most by {louder[0]} (+{louder[1]:,}, not steadily)" if louder else ""
    rise = dict(risen).get(first.maker or "", first.grown)
    if louder and louder[0] != first.maker and louder[1] > rise:
        return f", steadily by {first.maker} (+{rise:,}); {louder[0]} rose by more, not steadily (+{louder[1]:,})"
    return f", most by {first.maker} (+{rise:,})"


def _last_total(recall: Recall) -> int | None:
    return next((round(series.last) for series in recall.series if series.name == ALL), None)


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


def _series(recall: Recall) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("series", overflow="fold")
    _add_figures(table)
    for series in recall.series:
        if series.name not in _UNSHOWN and not series.name.startswith(MAKER_PREFIX):
            table.add_row(Text(series.name.removesuffix(_SECONDS)), *_figures(series))
    return table


def _makers(recall: Recall) -> list[RenderableType]:
    """Their names come last, whole: they are what is looked for."""
    makers = [series for series in recall.series if series.name.startswith(MAKER_PREFIX) and max(_values(series)) > 0]
    if not makers:
        return []
    table = Table(box=None, pad_edge=False)
    _add_figures(table)
    table.add_column("zombies by maker", overflow="fold")
    makers.sort(key=lambda each: (-each.last, -max(_values(each)), each.name))
    for series in makers[:_MOST_MAKERS]:
        table.add_row(*_figures(series), Text(series.name.removeprefix(MAKER_PREFIX)))
    return [table]


def _add_figures(table: Table) -> None:
    table.add_column("", no_wrap=True, min_width=_WIDTH)
    for title in ("first", "last", "least", "most"):
        table.add_column(title, justify="right", no_wrap=True)


def _figures(series: Series) -> tuple[str, ...]:
    values = _values(series)
    shown = (values[0], values[-1], min(values), max(values))
    return sparkline(series.points), *(figure(series.name, value) for value in shown)


def _values(series: Series) -> list[float]:
    return [value for _, value in series.points]


def figure(name: str, value: float) -> str:
    """Spans of time as such; all else is a number."""
    return duration(value) if name.endswith(_SECONDS) and value else f"{value:,.10g}"


def _moment(moment: Sample) -> Table:
    table = Table(title=f"as it was at {rfc3339(moment.at)}", box=None, pad_edge=False, title_justify="left")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("series", overflow="fold")
    makers = {name for name in moment.values if name.startswith(MAKER_PREFIX)}
    most_first = sorted(makers, key=lambda name: (-moment.values[name], name))
    for name in [*(name for name in moment.values if name not in makers), *most_first]:
        value = moment.values[name]
        table.add_row(figure(name, value), Text(name.removesuffix(_SECONDS)))
    return table


def _events(happenings: Sequence[Happening]) -> Table:
    table = Table(title="events", box=None, pad_edge=False, title_justify="left", show_header=False)
    for each in happenings[-_MOST_EVENTS:]:
        table.add_row(rfc3339(each.at)[:19], Text(each.what), Text(each.detail))
    return table
