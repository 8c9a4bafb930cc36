# SPDX-License-Identifier: Apache-2.0
"""One time axis: a lane for each kind of event, the number of zombies below where a history has it."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from zombiescope.facts.timeline import Timeline

_WIDTH, _LEFT, _RIGHT, _LANE, _CURVE = 980, 130, 16, 30, 90
_TICKS = 6
_MOST_MARKS = 2_000


def render_axis(timeline: Timeline) -> str:
    """Empty where nothing happened and nothing is remembered."""
    kinds = timeline.kinds
    if not kinds and len(timeline.zombies) < 2:
        return ""
    lanes = len(kinds) * _LANE
    height = lanes + (_CURVE + 14 if len(timeline.zombies) > 1 else 0) + 34
    parts = [
        (
            f'<svg class="axis" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" '
            'aria-label="events over time">'
        )
    ]
    for number, kind in enumerate(kinds):
        parts += _lane(timeline, kind, number * _LANE + 8)
    if len(timeline.zombies) > 1:
        parts += _curve(timeline, lanes + 12)
    return "".join([*parts, *_ticks(timeline, height - 26), "</svg>"])


def _x(timeline: Timeline, at: float) -> float:
    span = max(timeline.end - timeline.begin, 1e-9)
    return _LEFT + min(max((at - timeline.begin) / span, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT)


def _lane(timeline: Timeline, kind: str, top: int) -> list[str]:
    middle = top + 10
    parts = [f'<text x="{_LEFT - 10}" y="{middle + 4}" text-anchor="end" class="name">{escape(kind)}</text>']
    for begin, end in timeline.watched.get(kind, ((timeline.begin, timeline.end),)):
        left, right = _x(timeline, begin), _x(timeline, end)
        parts.append(f'<path class="lane" d="M{left:.1f} {middle}H{max(right, left + 1):.1f}"/>')
    for mark in [mark for mark in timeline.marks if mark.what == kind][-_MOST_MARKS:]:
        x = _x(timeline, mark.at)
        parts.append(
            f'<path class="mark" d="M{x:.1f} {middle - 8}V{middle + 8}"><title>{escape(_moment(mark.at))} '
            f"{escape(mark.detail)}</title></path>"
        )
    return parts


def _curve(timeline: Timeline, top: int) -> list[str]:
    most = max(value for _, value in timeline.zombies) or 1.0
    points = " ".join(
        f"{_x(timeline, at):.1f},{top + _CURVE - value / most * (_CURVE - 8):.1f}" for at, value in timeline.zombies
    )
    return [
        f'<text x="{_LEFT - 10}" y="{top + 14}" text-anchor="end" class="name">{most:,.0f}</text>',
        f'<text x="{_LEFT - 10}" y="{top + _CURVE}" text-anchor="end" class="name">zombies 0</text>',
        f'<polyline class="curve" points="{points}"/>',
    ]


def _ticks(timeline: Timeline, top: int) -> list[str]:
    parts = [f'<path class="lane" d="M{_LEFT} {top}H{_WIDTH - _RIGHT}"/>']
    for number in range(_TICKS + 1):
        at = timeline.begin + (timeline.end - timeline.begin) * number / _TICKS
        x = _x(timeline, at)
        anchor = "end" if number == _TICKS else "start" if number == 0 else "middle"
        words = _moment(at)[5:16] if timeline.end - timeline.begin > 7200 else _moment(at)[11:19]
        parts.append(f'<text x="{x:.1f}" y="{top + 18}" text-anchor="{anchor}" class="tick">{escape(words)}</text>')
    return parts


def _moment(at: float) -> str:
    seconds = min(max(at, 0.0), 253_402_300_799.0)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
