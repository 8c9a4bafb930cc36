# SPDX-License-Identifier: Apache-2.0
"""`pressure` of `zombiescope.doctor/1`: reclaim, stalls, faults and throttling on one time axis. Every null has a gap."""

from __future__ import annotations

from collections.abc import Mapping

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.pressure import PressurePoint, PressureSeen, Stalls
from zombiescope.presenters.document import Json, rfc3339

_RATES = ("direct_pages", "kswapd_pages", "limit_pages", "major_faults")
_NO_RATE = "the counters in /proc/vmstat do not tell it on this kernel"
_NO_KSWAPD = "no kswapd is to be seen"


def render_pressure(seen: PressureSeen | Gap) -> Json | None:
    if isinstance(seen, Gap):
        return None
    return {
        "began_at": rfc3339(seen.began_at),
        "seconds": round(seen.seconds, 3),
        "points": [_point(point, with_groups=not isinstance(seen.groups, Gap)) for point in seen.points],
        "throttled": None
        if isinstance(seen.throttled, Gap)
        else [
            {**group._asdict(), "path": shown(group.path), "seconds": round(group.seconds, 3)}
            for group in seen.throttled
        ],
    }


def _point(point: PressurePoint, *, with_groups: bool) -> Json:
    rates = {name: _rounded(getattr(point, name), 1) for name in _RATES}
    groups = {shown(path): _shares(stalls) for path, stalls in point.groups.items()}
    return {
        "at": rfc3339(point.at),
        "seconds": round(point.seconds, 3),
        **rates,
        "kswapd_share": _rounded(point.kswapd_share, 4),
        "stalls": _shares(point.stalls),
        "groups": groups if with_groups else None,
    }


def _shares(stalls: Stalls) -> Mapping[str, float]:
    return {name: round(share, 4) for name, share in stalls.items()}


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def pressure_gaps(seen: PressureSeen | Gap) -> list[Gap]:
    """A gap for each field that is null; where nothing at all was watched, the case names it."""
    if isinstance(seen, Gap):
        return []
    unread = {gap.fact: gap for gap in seen.gaps}
    why = unread.get("pressure", Gap("", _NO_RATE))
    missing = [name for name in _RATES if any(getattr(point, name) is None for point in seen.points)]
    found = [why.about(f"pressure.points[].{name}") for name in missing]
    if any(point.kswapd_share is None for point in seen.points):
        found.append(Gap("pressure.points[].kswapd_share", _NO_KSWAPD))
    if "pressure.stalls" in unread:
        found.append(unread["pressure.stalls"].about("pressure.points[].stalls"))
    if isinstance(seen.throttled, Gap):
        found.append(seen.throttled.about("pressure.throttled"))
    if isinstance(seen.groups, Gap) and seen.points:
        found.append(seen.groups)
    return found
