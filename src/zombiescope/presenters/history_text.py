# SPDX-License-Identifier: Apache-2.0
"""What the agent remembers, for a person: a sentence, sparklines, makers, forecast, what happened."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from rich.console import RenderableType
from rich.text import Text

from zombiescope.analysis.growth import Forecast, Growth
from zombiescope.analysis.recall import ALL, Pause, Recall, RecalledSeries
from zombiescope.analysis.trend import Point
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import MAKER_PREFIX, Happening, KeptCapture, Sample
from zombiescope.presenters.document import rfc3339
from zombiescope.presenters.figures import duration
from zombiescope.presenters.layout import Block, Column, Command, Fitting, Prose, unknown_block

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 20
_MOST_MAKERS = 10
_MOST_EVENTS = 12
_MARKS = {"memory": "5% of memory"}
_UNSHOWN = frozenset({"uptime"})
_SECONDS = "_seconds"
_COLUMNS = (Column("", is_number=False), *(Column(name) for name in ("first", "last", "least", "most")))


def render_history_text(
    recall: Recall | None,
    happenings: Sequence[Happening],
    moment: Sample | None,
    gaps: Sequence[Gap],
    captures: Sequence[KeptCapture] = (),
    *,
    at: float | None = None,
) -> list[RenderableType]:
    """`at`: the moment that was asked for; `captures`: profiles of that time."""
    if recall is None:
        first = "nothing of that time could be read" if gaps else "nothing is remembered of that time"
        return [
            Prose(first),
            *unknown_block(gaps),
            Text(),
            Command("to see all of it", "zombiescope history --last all"),
        ]
    span = f"{rfc3339(recall.since)[:19]} to {rfc3339(recall.until)[:19]} UTC"
    boots = f", {recall.boots} boots" if recall.boots > 1 else ""
    last = next((round(series.last) for series in recall.series if series.name == ALL), None)
    parts: list[RenderableType] = [
        Prose(growth_sentence(recall.growth, recall.risen, last), "bold"),
        Prose(f"{recall.samples:,} samples, {span}{boots}", "dim"),
        *map(Prose, _clock(recall.growth)),
        Text(),
        *(_moment(moment) if moment else [_series(recall), *_makers(recall)]),
    ]
    if recall.pauses:
        parts += [Text(), Prose("nobody watched: " + ", ".join(map(_pause, recall.pauses[-5:])))]
    parts += _events(happenings, captures)
    parts += [*unknown_block(gaps), Text()]
    looked_at = (
        at if at is not None else max((each.at for each in happenings if _capture_of(each.at, captures)), default=None)
    )
    if looked_at is not None and (kept := _capture_of(looked_at, captures)):
        when = "then" if at is not None else "at the last event of which there is a capture"
        return [*parts, Command(f"to see what the cores did {when}", _look(kept, looked_at))]
    if moment:
        return [*parts, Command("to see what went before and after", "zombiescope history")]
    return [*parts, Command("to see any past moment", f"zombiescope history --at {rfc3339(recall.until)[:16]}")]


def growth_sentence(growth: Growth | None, risen: Sequence[tuple[str, int]] = (), last: int | None = None) -> str:
    """`last`: the number of zombies in the last sample, which stands in the rows below as well."""
    if growth is None or growth.total is None:
        return "too little is remembered to tell growth from noise"
    trend = growth.total
    now = trend.now if last is None else last
    per_hour = trend.slope.per_second * 3600
    if trend.slope.low <= 0:
        return f"{now:,} zombies, not growing ({per_hour:+.1f} per hour, which is within the noise)"
    began = (
        f"since {_moment_of(trend.since, growth.at)}"
        if trend.is_since_seen
        else f"for at least {duration(growth.at - trend.since)}"
    )
    who = _who(growth, risen)
    low, high = trend.slope.low * 3600, trend.slope.high * 3600
    between = "" if f"{low:.1f}" == f"{high:.1f}" else f" ({low:.1f} to {high:.1f})"
    return f"{now:,} zombies, {per_hour:.1f} more per hour{between} {began}{who}"


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
        span = _between(duration(shortest), duration(longest))
        lines.append(f"after {reboots} {growth.onset.mark:,} was reached in {span}")
    return lines


def _range(forecast: Forecast) -> str:
    if forecast.latest_seconds is None:
        return f"{duration(forecast.soonest_seconds)} at the soonest"
    return _between(duration(forecast.soonest_seconds), duration(forecast.latest_seconds))


def _between(soonest: str, latest: str) -> str:
    """`2.9 to 3.2 days`: a unit that both have is said once."""
    if soonest == latest:
        return soonest
    number, _, unit = soonest.partition(" ")
    return f"{number if latest.endswith(f' {unit}') else soonest} to {latest}"


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


def _series(recall: Recall) -> Fitting:
    rows = [
        (_name(series.name), *_figures(series))
        for series in recall.series
        if series.name not in _UNSHOWN and not series.name.startswith(MAKER_PREFIX)
    ]
    return Fitting([Column("series", is_number=False, least_width=8), *_COLUMNS], rows)


def _name(series: str) -> str:
    if series.startswith(MAKER_PREFIX):
        return f"zombies left by {series.removeprefix(MAKER_PREFIX)}"
    return series.removesuffix(_SECONDS).replace("_", " ")


def _makers(recall: Recall) -> list[RenderableType]:
    """The biggest first. Their names come last, where there is room for them."""
    makers = [series for series in recall.series if series.name.startswith(MAKER_PREFIX) and max(_values(series)) > 0]
    if not makers:
        return []
    makers.sort(key=lambda each: (-each.last, -max(_values(each)), each.name))
    rows = [(*_figures(series), series.name.removeprefix(MAKER_PREFIX)) for series in makers[:_MOST_MAKERS]]
    parts: list[RenderableType] = [
        Text(),
        Fitting([*_COLUMNS, Column("zombies by maker", is_number=False, least_width=16)], rows, about=-1),
    ]
    rest = len(makers) - _MOST_MAKERS
    return [*parts, Text(f"and {rest:,} more makers (--json lists all)", style="dim")] if rest > 0 else parts


def _figures(series: RecalledSeries) -> tuple[str, ...]:
    values = _values(series)
    shown = (values[0], values[-1], min(values), max(values))
    return sparkline(series.points), *(figure(series.name, value) for value in shown)


def _values(series: RecalledSeries) -> list[float]:
    return [value for _, value in series.points]


def figure(name: str, value: float) -> str:
    """Spans of time as such; all else is a number."""
    return duration(value) if name.endswith(_SECONDS) and value else f"{value:,.10g}"


def _moment(moment: Sample) -> list[RenderableType]:
    makers = {name for name in moment.values if name.startswith(MAKER_PREFIX)}
    most_first = sorted(makers, key=lambda name: (-moment.values[name], name))
    rows = [
        (figure(name, moment.values[name]), _name(name))
        for name in [*(name for name in moment.values if name not in makers), *most_first]
    ]
    title = Text(f"as it was at {rfc3339(moment.at)[:19].replace('T', ' ')} UTC", style="italic")
    return [title, Fitting([Column("value"), Column("series", is_number=False, least_width=8)], rows, about=-1)]


def _capture_of(at: float, captures: Sequence[KeptCapture]) -> KeptCapture | None:
    return next((one for one in captures if one.begin <= at <= one.end), None)


def _look(kept: KeptCapture, at: float) -> str:
    into = at - kept.begin
    place = f" --captures {quote(kept.folder)}" if kept.folder else ""
    return (
        f"zombiescope profile heatmap {quote(kept.name)} --from {max(0.0, into - 10):.0f} --to {into + 10:.0f}{place}"
    )


def _events(happenings: Sequence[Happening], captures: Sequence[KeptCapture] = ()) -> list[RenderableType]:
    """The newest; those of one kind that say the same are one line."""
    if not happenings:
        return []
    told: dict[tuple[str, str], list[float]] = {}
    for each in happenings:
        told.setdefault((each.what, each.detail), []).append(each.at)
    newest = sorted(told.items(), key=lambda pair: pair[1][-1])[-_MOST_EVENTS:]
    lines = [
        f"{rfc3339(times[-1])[:19].replace('T', ' ')}  {what.replace('-', ' ')}: {detail}".removesuffix(": ")
        + (f" ({len(times):,} times since {rfc3339(times[0])[:16].replace('T', ' ')})" if len(times) > 1 else "")
        + (f" · capture {kept.name}" if (kept := _capture_of(times[-1], captures)) else "")
        for (what, detail), times in newest
    ]
    return [Text(), Block("events", lines)]
