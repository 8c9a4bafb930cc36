# SPDX-License-Identifier: Apache-2.0
"""Profiles for a program: `zombiescope.heatmap/1`, `flame/1`, `moments/1`, `captures/1`, `profile-hits/1` and `profile-push/1`.
Columns rather than rows, for size."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.presenters.document import Json, rfc3339
from zombiescope.profiler.stacks.about import Reason
from zombiescope.profiler.stacks.capture import Capture, Stored
from zombiescope.profiler.stacks.flame_graph import FlameGraph, Key
from zombiescope.profiler.stacks.heat_map import HeatMap
from zombiescope.profiler.stacks.saturation import Explained

if TYPE_CHECKING:
    from zombiescope.profiler.stacks.searching import Hit


def _document(schema: str, name: str, capture: Capture, body: Json) -> Json:
    about = capture.about
    return {
        "schema": f"zombiescope.{schema}",
        "taken_at": None if capture.began is None else rfc3339(capture.began),
        "capture": {
            "name": name,
            "source": about.source,
            "host": about.host,
            "kernel": about.kernel,
            "samples": len(capture),
            "seconds": round(capture.seconds, 6),
            "rate_hz": about.rate_hz,
            "lost": about.lost,
            "throttled": about.throttled,
            "has_time": about.has_time,
        },
        **body,
        "gaps": [gap._asdict() for gap in about.gaps],
    }


def render_capture(name: str, capture: Capture, stored: str) -> Json:
    return _document(
        "capture/1",
        name,
        capture,
        {
            "stored": stored,
            "kernel_samples": capture.kernel_samples,
            "cores": sorted(set(capture.cpu.tolist())),
            "comms": list(capture.comms),
            "events": list(capture.events),
            "cgroups": [path for path in capture.cgroups if path],
            "stacks": len(capture.tree.frame),
            "frames": len(capture.frame_names),
        },
    )


def render_heat_map(found: HeatMap, name: str, capture: Capture) -> Json:
    return _document(
        "heatmap/1",
        name,
        capture,
        {
            "begin_seconds": found.begin,
            "column_seconds": found.column_seconds,
            "rows": found.rows,
            "expected_per_cell": found.expected,
            "cores": [
                {"core": cpu, "coverage": found.coverage[index], "counts": found.counts[index].tolist()}
                for index, cpu in enumerate(found.cpus)
            ],
        },
    )


def render_flame(graph: FlameGraph, frames: Sequence[Key], name: str, capture: Capture) -> Json:
    return _document("flame/1", name, capture, flame_body(graph, frames))


def flame_body(graph: FlameGraph, frames: Sequence[Key]) -> Json:
    """Only the frames that are used, numbered anew."""
    is_named = graph.frame < len(frames)
    used, place = np.unique(graph.frame[is_named], return_inverse=True)
    numbered = np.zeros(len(graph.frame), np.int64)
    numbered[is_named] = place + 1
    return {
        "samples": graph.samples,
        "before_samples": graph.before_samples if graph.before is not None else None,
        "frames": [["all", ""], *(frames[number] for number in used.tolist())],
        "boxes": {
            "parent": graph.parent.tolist(),
            "frame": numbered.tolist(),
            "total": graph.total.tolist(),
            "self": graph.self.tolist(),
            "before": None if graph.before is None else graph.before.tolist(),
        },
    }


def render_moments(moments: Sequence[Explained], name: str, capture: Capture) -> Json:
    found = [
        {
            "core": one.moment.cpu,
            "begin_seconds": round(one.moment.begin, 3),
            "end_seconds": round(one.moment.end, 3),
            "kernel_share": round(one.moment.share, 4),
            "quiet_share": round(one.moment.quiet_share, 4),
            "score": round(one.moment.score, 2),
            "comm": one.comm,
            "stack": list(one.stack),
            "stack_share": round(one.stack_share, 4),
            "risen": [
                {
                    "name": risen.name,
                    "file": risen.file,
                    "before": round(risen.before, 4),
                    "during": round(risen.during, 4),
                }
                for risen in one.risen
            ],
        }
        for one in moments
    ]
    return _document("moments/1", name, capture, {"moments": found})


def render_list(found: Sequence[Stored]) -> Json:
    return {
        "schema": "zombiescope.captures/1",
        "captures": [
            {
                "name": entry.name,
                "bytes": entry.size_bytes,
                "written_at": rfc3339(entry.written_at),
                "source": None if entry.about is None else entry.about.source,
                "host": None if entry.about is None else entry.about.host,
                "is_damaged": entry.about is None,
            }
            for entry in found
        ],
        "gaps": [],
    }


def render_push(sent: Sequence[tuple[str, int, int, int]], to: str, form: str, known: int) -> Json:
    """Each of `sent`: a capture, and how many profiles, samples and bytes of it were accepted."""
    names = ("name", "profiles", "samples", "bytes")
    return {
        "schema": "zombiescope.profile-push/1",
        "to": to,
        "as": form,
        "captures": [dict(zip(names, one, strict=True)) for one in sent],
        "sent_before": known,
        "gaps": [],
    }


Reasons = Mapping[str, Sequence[Reason]]
"""By the name of the capture."""


def render_hits(hits: "Sequence[Hit]", reasons: Reasons, captures: int, gaps: Sequence[Gap]) -> Json:
    return {
        "schema": "zombiescope.profile-hits/1",
        "captures": captures,
        "hits": [
            {
                "capture": hit.name,
                "at": None if hit.begin is None else rfc3339(hit.begin + hit.at),
                "begin_seconds": round(hit.at, 3),
                "end_seconds": round(hit.until, 3),
                "core": hit.core,
                "kind": hit.kind,
                "name": hit.what,
                "cores": round(hit.cores, 4),
                "usual_cores": round(hit.usual, 4),
                "score": round(hit.score, 2),
                "moment": dict(hit.moment) if hit.moment is not None else None,
                "kept_for": [f"{why.kind}: {why.words}" for why in reasons.get(hit.name, ())],
            }
            for hit in hits
        ],
        "gaps": [gap._asdict() for gap in gaps],
    }
