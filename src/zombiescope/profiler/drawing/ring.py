# SPDX-License-Identifier: Apache-2.0
"""What a ring of captures covers, for a person and as `zombiescope.ring/1`."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted
from zombiescope.presenters.document import Json, rfc3339
from zombiescope.presenters.figures import duration
from zombiescope.profiler.stacks.about import Coverage, Note, RawFiles

_USUAL_BYTES = 10.0
"""Of a stored sample, until a ring has shown how many (`bench/bench_profile.py`)."""
_LEAST_SAMPLES, _MOST_HOLES = 1000, 10
_UNREAD = Gap("captures", "raw segments, as they were sampled, are not read here", "zombiescope profile import FILE")
_NOTABLE = ("rate", "clock", "full", "failed", "dropped", "over")


class Wish(NamedTuple):
    """What a size is reckoned for."""

    hours: float
    cores: int
    rate_hz: float
    most_bytes: float
    most_age_seconds: float


class Reckoned(NamedTuple):
    bytes_per_sample: float
    is_own: bool
    """By this ring's own captures."""
    needed_bytes: float
    holds_seconds: float
    """What the configured size holds of these cores at this rate."""


def reckon(found: Coverage, wish: Wish) -> Reckoned:
    is_own = found.samples >= _LEAST_SAMPLES
    each = found.size_bytes / found.samples if is_own else _USUAL_BYTES
    per_second = each * wish.cores * wish.rate_hz
    return Reckoned(each, is_own, per_second * wish.hours * 3600, wish.most_bytes / per_second)


def render_ring(found: Coverage, wish: Wish, notes: Sequence[Note], raw: RawFiles | None = None) -> Json:
    reckoned = reckon(found, wish)
    return {
        "schema": "zombiescope.ring/1",
        "captures": found.captures,
        "kept": found.kept,
        "bytes": found.size_bytes,
        "samples": found.samples,
        "from": None if found.begin is None else rfc3339(found.begin),
        "to": None if found.end is None else rfc3339(found.end),
        "recorded_seconds": round(found.seconds, 3),
        "holes": [
            {
                "from": rfc3339(hole.begin),
                "to": rfc3339(hole.end),
                "seconds": None if hole.seconds is None else round(hole.seconds, 3),
                "why": hole.why,
                "on_steady_clock": None if hole.steady is None else [round(at, 3) for at in hole.steady],
            }
            for hole in found.holes
        ],
        "clock_set": [{"at": rfc3339(at), "by_seconds": round(by, 3)} for at, by in found.jumps],
        "reckoned": {
            "hours": wish.hours,
            "cores": wish.cores,
            "rate_hz": wish.rate_hz,
            "bytes_per_sample": round(reckoned.bytes_per_sample, 2),
            "is_by_this_ring": reckoned.is_own,
            "needs_bytes": round(reckoned.needed_bytes),
            "most_bytes": round(wish.most_bytes),
            "most_bytes_hold_seconds": round(reckoned.holds_seconds),
            "most_age_seconds": round(wish.most_age_seconds),
        },
        "notes": [{"at": rfc3339(one.at), "what": one.what, "words": one.words} for one in notes[-50:]],
        "gaps": [] if raw is None else [_UNREAD._asdict()],
    }


def render_raw_text(raw: RawFiles, folder: str) -> list[RenderableType]:
    """Where there is nothing else: what a recorder without numpy stored is not read here."""
    return [
        Text(
            f"{counted(raw.segments, 'raw segment')} in {folder}, {_decimal(raw.size_bytes)}, as sampled", style="bold"
        ),
        Text("what they cover is not known until profile import has made captures of them"),
    ]


def render_ring_text(
    found: Coverage, wish: Wish, notes: Sequence[Note], folder: str, other_rings: int
) -> list[RenderableType]:
    reckoned = reckon(found, wish)
    needs = (
        f"{wish.hours:g} h at {wish.cores} core{'s' * (wish.cores != 1)} and {wish.rate_hz:g} Hz needs about "
        f"{_decimal(reckoned.needed_bytes)}; the {_decimal(wish.most_bytes)} configured hold about "
        f"{duration(reckoned.holds_seconds)}"
    )
    if reckoned.holds_seconds > wish.most_age_seconds:
        needs += f", of which {duration(wish.most_age_seconds)} are kept"
    by = "by its own captures" if reckoned.is_own else f"by a usual {_USUAL_BYTES:g} bytes per sample"
    if found.begin is None or found.end is None:
        return [
            Text(f"no recorder has stored a capture in {folder}", style="bold"),
            Text(f"{needs} ({by})"),
        ]
    said = [one for one in notes if one.what in _NOTABLE][-5:]
    return [
        Text(
            f"the ring covers {duration(found.seconds)}, {_moment(found.begin)} to {_moment(found.end)} UTC"
            f"{' by a clock that was set meanwhile' if found.jumps else ''}: "
            f"{counted(found.captures, 'capture')}, {found.kept} of them worth keeping, {_decimal(found.size_bytes)}",
            style="bold",
        ),
        Text(f"{needs} ({by})"),
        *_holes(found),
        *(
            Text(f"the clock was set by {by_seconds:+,.0f} s at {_moment(at)}", style="yellow")
            for at, by_seconds in found.jumps[-_MOST_HOLES:]
        ),
        *(Text(f"{_moment(one.at)}  {one.what}: {one.words}", style="dim") for one in said),
        *([Text(f"{counted(other_rings, 'other ring')} in this folder", style="dim")] if other_rings > 0 else []),
    ]


def _holes(found: Coverage) -> list[RenderableType]:
    if not found.holes:
        return [Text("no holes")]
    lines: list[RenderableType] = [Text(f"{counted(len(found.holes), 'hole')}:")]
    for hole in found.holes[-_MOST_HOLES:]:
        length = "unknown length" if hole.seconds is None else duration(hole.seconds)
        lines.append(Text(f"  {_moment(hole.begin)} to {_moment(hole.end)} ({length}): {hole.why}"))
    if len(found.holes) > _MOST_HOLES:
        lines.append(Text(f"  and {len(found.holes) - _MOST_HOLES:,} before (--json lists all)", style="dim"))
    return lines


def _moment(at: float) -> str:
    return rfc3339(at)[:19].replace("T", " ")


def _decimal(size_bytes: float) -> str:
    """As the configuration counts."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if size_bytes >= limit:
            return f"{size_bytes / limit:.3g} {unit}"
    return f"{size_bytes:.0f} bytes"
