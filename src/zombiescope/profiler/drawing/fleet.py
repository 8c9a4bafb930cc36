# SPDX-License-Identifier: Apache-2.0
"""Answers over an archive: what is hot on these nodes, what is hot here and not there, the moments, what was shipped; each for a
person, and as JSON (`zombiescope.fleet-top/1`, `fleet-difference/1`, `fleet-flame/1`, `fleet-moments/1`, `profile-shipped/1`)."""

from collections.abc import Callable, Sequence

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, quiet
from zombiescope.presenters.document import Json, rfc3339
from zombiescope.presenters.figures import duration, size
from zombiescope.presenters.layout import Column, Fitting
from zombiescope.profiler.drawing.documents import flame_body
from zombiescope.profiler.drawing.text import render_gaps
from zombiescope.profiler.stacks.across_nodes import (
    Changed,
    Difference,
    Flame,
    Group,
    Moment,
    Moments,
    OfNodes,
    Shipped,
    Top,
)
from zombiescope.profiler.stacks.flame_graph import Key

Range = Callable[[Sequence[float]], tuple[float, float, float] | None]
_TOP = (
    Column("itself"),
    Column("95 % range"),
    Column("in all"),
    Column("highest node", is_number=False, least_width=10),
    Column("function", is_number=False, least_width=20),
)
_CHANGED = (
    Column("here"),
    Column("there"),
    Column("points"),
    Column("95 % range"),
    Column("function", is_number=False, least_width=20),
    Column("called by", is_number=False, least_width=16),
)


def named(key: Key) -> str:
    """A thread has no file."""
    name, file = quiet(key[0]), quiet(key[1])
    if not file:
        return f"thread {name}"
    return name if file.startswith("[") and not name.startswith("[") else f"{name} ({file})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 or share == 0 else f"{100 * share:.2f} %"


def _points(share: float) -> str:
    return f"{100 * share:+.2f}"


def _of(group: Group) -> str:
    return ", ".join(
        (counted(group.nodes, "node"), counted(group.captures, "capture"), counted(group.samples, "sample"))
    )


def ranked(shares: OfNodes, by: str) -> list[int]:
    """The functions by their mean share over nodes, those that take most first."""
    means = (shares.own if by == "self" else shares.total).mean(axis=0) if len(shares.nodes) else np.zeros(0)
    return [int(each) for each in np.argsort(-means, kind="stable")]


def render_top_text(found: Top, title: str, by: str, most: int, spread: Range) -> list[RenderableType]:
    group, shares, gaps = found
    order = ranked(shares, by)[:most]
    if not order:
        return [Text(f"{title}: no sample", style="bold"), *render_gaps(gaps)]
    main = shares.own if by == "self" else shares.total
    rows = []
    for column in order:
        values = main[:, column].tolist()
        around = spread(values)
        told = "?" if around is None else f"{_percent(around[0])} to {_percent(around[2])}"
        highest = int(np.argmax(main[:, column]))
        peak = f"{_percent(values[highest])} {quiet(shares.nodes[highest])}"
        own, total = (_percent(float(each[:, column].mean())) for each in (shares.own, shares.total))
        rows.append((own, told, total, peak, named(shares.keys[column])))
    what = f"{named(shares.keys[order[0]])}{' with what it calls' if by == 'total' else ''}"
    answer = f"{what} takes {_percent(float(main[:, order[0]].mean()))} of the time"
    notes = [Text(f"means over {_of(group)}; every node counts the same. The range is that of the median over nodes")]
    if spread([0.0] * len(shares.nodes)) is None:
        notes.append(
            Text(f"unknown: the range ({counted(len(shares.nodes), 'node')}: too few for one)", style="yellow")
        )
    return [Text(f"{title}: {answer}", style="bold"), Fitting(_TOP, rows, about=4), *notes, *render_gaps(gaps)]


def render_fleet_difference_text(found: Difference, here: str, there: str, most: int) -> list[RenderableType]:
    told = Text(f"here: {here} ({_of(found.where)}). there: {there} ({_of(found.against)})")
    compared = counted(found.compared, "function")
    if found.too_few:
        nodes = f"{counted(found.where.nodes, 'node')} here, {found.against.nodes:,} there"
        return [Text(f"too few nodes to tell: {nodes}; {found.too_few}", style="bold"), told, *render_gaps(found.gaps)]
    if not found.found:
        answer = f"no function takes more or less of the time on nodes with {here} than on {there}, beyond chance"
        parts: list[RenderableType] = [Text(answer, style="bold")]
        if found.largest:
            parts += [Text(f"{compared} compared. What differs most, and may be chance:"), _table(found.largest[:5])]
        if found.unsure:
            note = f"a function that differs alone could have been missed: {found.unsure}, and {compared} were compared"
            parts.append(Text(f"unknown: {note}", style="yellow"))
        return [*parts, told, *render_gaps(found.gaps)]
    first = found.found[0]
    word = "more" if first.shift.mean > first.shift.other else "less"
    answer = (
        f"{_told(first)} takes {word} of the time on nodes with {here} than on {there}: {_percent(first.shift.mean)} "
        f"against {_percent(first.shift.other)}"
    )
    parts = [Text(answer, style="bold"), _table(found.found[:most])]
    if len(found.found) > most:
        parts.append(Text(f"… {len(found.found) - most:,} more: --most", style="dim"))
    if found.passing:
        names = ", ".join(named(each.key) for each in found.passing[:3])
        some = f"{names} and {len(found.passing) - 3:,} more" if len(found.passing) > 3 else names
        parts.append(Text(f"their callers differ by no more than these: {some}", style="dim"))
    meant = Text(
        f"{compared} compared; of such findings at most 1 in 100 is expected to be chance. Means over nodes, and the range "
        "of the shift between nodes"
    )
    return [*parts, meant, told, *render_gaps(found.gaps)]


def _told(changed: Changed) -> str:
    return f"{named(changed.key)} itself" if changed.is_own else named(changed.key)


def _table(changed: Sequence[Changed]) -> Fitting:
    rows: list[list[str | Text]] = []
    for each in changed:
        rise = each.shift.mean - each.shift.other
        rows.append(
            [
                _percent(each.shift.mean),
                _percent(each.shift.other),
                Text(_points(rise), style="red" if rise > 0 else "blue"),
                f"{_points(each.shift.low)} to {_points(each.shift.high)}",
                _told(each),
                Text(quiet(" < ".join(each.callers)), style="dim"),
            ]
        )
    return Fitting(_CHANGED, rows, about=4)


def render_fleet_moments_text(found: Moments, what: str, here: str, most: int) -> list[RenderableType]:
    if not found.moments:
        return [Text(f"{what} was not seen on {here} ({_of(found.group)})", style="bold"), *render_gaps(found.gaps)]
    first = found.moments[0]
    listed = [
        Text(f"{number}. {_when(each)}, {_held(each)} (capture {each.title})")
        for number, each in enumerate(found.moments[:most], 1)
    ]
    searched = Text(f"searched {here}: {_of(found.group)}; {counted(found.samples, 'sample')} of {what}")
    answer = Text(f"{_when(first)}: {what} {_held(first)}", style="bold")
    return [answer, *listed, searched, *render_gaps(found.gaps)]


def _when(moment: Moment) -> str:
    return f"{rfc3339(moment.begin / 1e6)[:19].replace('T', ' ')} UTC on {quiet(moment.node)}"


def _held(moment: Moment) -> str:
    length = duration((moment.end - moment.begin) / 1e6)
    if moment.share is None:
        return f"{counted(moment.samples, 'sample')} on core {moment.core} in {length}"
    return f"took up to {100 * moment.share:.0f} % of core {moment.core} for {length}"


def render_shipped_text(shipped: Sequence[Shipped], place: str, gaps: Sequence[Gap]) -> list[RenderableType]:
    """What was written, and what that is per sample."""
    new = [each for each in shipped if each.bytes_written is not None]
    there = len(shipped) - len(new)
    again = f"{counted(there, 'capture')} {'was' if there == 1 else 'were'} there already" if there else ""
    if not new:
        return [Text(f"nothing to ship to {place}: {again or 'no capture'}", style="bold"), *render_gaps(gaps)]
    written, samples = sum(each.bytes_written or 0 for each in new), sum(each.samples for each in new)
    answer = f"shipped {counted(len(new), 'capture')} to {place}: {counted(samples, 'sample')}, {size(written)}"
    parts = [Text(f"{answer} ({written / max(1, samples):.2f} bytes per sample)", style="bold")]
    return [*parts, *([Text(again)] if again else []), *render_gaps(gaps)]


def _document(schema: str, archive: str, body: Json, gaps: Sequence[Gap]) -> Json:
    return {"schema": f"zombiescope.{schema}", "archive": archive, **body, "gaps": [gap._asdict() for gap in gaps]}


def _key(key: Key) -> Json:
    return {"function": key[0], "file": key[1]}


def render_fleet_top(archive: str, top: Top, by: str, most: int, spread: Range) -> Json:
    group, shares, gaps = top
    main = shares.own if by == "self" else shares.total
    rows = []
    for column in ranked(shares, by)[:most]:
        found = spread(main[:, column].tolist())
        rows.append(
            {
                **_key(shares.keys[column]),
                "self": round(float(shares.own[:, column].mean()), 6),
                "total": round(float(shares.total[:, column].mean()), 6),
                "low": None if found is None else round(found[0], 6),
                "median": None if found is None else round(found[1], 6),
                "high": None if found is None else round(found[2], 6),
            }
        )
    few = (
        []
        if spread([0.0] * len(shares.nodes))
        else [Gap("functions[].median", "too few nodes for a range", "ship more")]
    )
    return _document("fleet-top/1", archive, {"where": group._asdict(), "by": by, "functions": rows}, [*gaps, *few])


def render_fleet_flame(archive: str, flame: Flame) -> Json:
    return _document(
        "fleet-flame/1",
        archive,
        {"where": flame.group._asdict(), **flame_body(flame.graph, flame.frames)},
        flame.gaps,
    )


def render_fleet_difference(archive: str, found: Difference) -> Json:
    body: Json = {
        "where": found.where._asdict(),
        "against": found.against._asdict(),
        "verdict": "too_few" if found.too_few else "found" if found.found else "none",
        "why": found.too_few or found.unsure or None,
        "compared": found.compared,
        "found": [_changed(each) for each in found.found],
        "passing": [_changed(each) for each in found.passing],
        "largest": [_changed(each) for each in found.largest],
        "flame": flame_body(found.graph, found.frames),
    }
    return _document("fleet-difference/1", archive, body, found.gaps)


def _changed(changed: Changed) -> Json:
    shift = changed.shift
    return {
        **_key(changed.key),
        "time": "self" if changed.is_own else "total",
        "here": round(shift.mean, 6),
        "there": round(shift.other, 6),
        "low": round(shift.low, 6),
        "high": round(shift.high, 6),
        "p": float(f"{shift.p_value:.4g}"),
        "q": float(f"{shift.q_value:.4g}"),
        "called_by": list(changed.callers),
        "passed_to": None if changed.passed_to is None else _key(changed.passed_to),
    }


def render_fleet_moments(archive: str, what: str, found: Moments, most: int) -> Json:
    moments = [
        {
            "node": each.node,
            "capture": each.title,
            "core": each.core,
            "begin": rfc3339(each.begin / 1e6),
            "end": rfc3339(each.end / 1e6),
            "samples": each.samples,
            "core_share": None if each.share is None else round(each.share, 4),
        }
        for each in found.moments[:most]
    ]
    body = {"where": found.group._asdict(), "function": what, "samples": found.samples, "moments": moments}
    return _document("fleet-moments/1", archive, body, found.gaps)


def render_shipped(archive: str, shipped: Sequence[Shipped], gaps: Sequence[Gap]) -> Json:
    new = [each for each in shipped if each.bytes_written is not None]
    written, samples = sum(each.bytes_written or 0 for each in new), sum(each.samples for each in new)
    body = {
        "captures": [
            {
                "capture": each.title,
                "name": each.name,
                "samples": each.samples,
                "was_there": each.bytes_written is None,
                "bytes": each.bytes_written,
            }
            for each in shipped
        ],
        "samples": samples,
        "bytes": written,
        "bytes_per_sample": round(written / samples, 3) if samples else None,
    }
    return _document("profile-shipped/1", archive, body, gaps)
