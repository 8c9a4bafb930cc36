# SPDX-License-Identifier: Apache-2.0
"""Answers over an archive for a program: `zombiescope.fleet-top/1`, `fleet-difference/1`, `fleet-flame/1`, `fleet-moments/1`, and
`profile-shipped/1`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zombiescope.facts.gap import Gap
from zombiescope.presenters.document import Json, rfc3339
from zombiescope.profiler.drawing.documents import flame_body
from zombiescope.profiler.drawing.fleet import Range, ranked
from zombiescope.profiler.stacks.flame_graph import Key
from zombiescope.profiler.stacks.fleet_answers import Changed, Difference, Flame, Group, Moments, Shipped, Top


def _document(schema: str, archive: str, body: Json, gaps: Sequence[Gap]) -> Json:
    return {"schema": f"zombiescope.{schema}", "archive": archive, **body, "gaps": [gap._asdict() for gap in gaps]}


def _group(group: Group) -> Json:
    return {"nodes": group.nodes, "captures": group.captures, "samples": group.samples}


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
    return _document("fleet-top/1", archive, {"where": _group(group), "by": by, "functions": rows}, [*gaps, *few])


def render_fleet_flame(archive: str, flame: Flame) -> Json:
    body = {"where": _group(flame.group), **flame_body(flame.graph, flame.frames)}
    return _document("fleet-flame/1", archive, body, flame.gaps)


def render_fleet_difference(archive: str, found: Difference) -> Json:
    verdict = "too_few" if found.too_few else "found" if found.found else "none"
    body: dict[str, Any] = {
        "where": _group(found.where),
        "against": _group(found.against),
        "verdict": verdict,
        "why": found.too_few or found.unsure or None,
        "compared": found.compared,
        "found": [_changed(each) for each in found.found],
        "passing": [_changed(each) for each in found.passing],
        "largest": [_changed(each) for each in found.largest],
    }
    return _document(
        "fleet-difference/1", archive, {**body, "flame": flame_body(found.graph, found.frames)}, found.gaps
    )


def _changed(changed: Changed) -> Json:
    shift = changed.shift
    figures = {"here": shift.mean, "there": shift.other, "low": shift.low, "high": shift.high}
    return {
        **_key(changed.key),
        "time": "self" if changed.is_own else "total",
        **{name: round(value, 6) for name, value in figures.items()},
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
    body = {"where": _group(found.group), "function": what, "samples": found.samples, "moments": moments}
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
