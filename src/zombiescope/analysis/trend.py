# SPDX-License-Identifier: Apache-2.0
"""How a number moves in time: a robust slope with its range, when it changed, when it will reach a mark.

The slope is Theil and Sen's: the median of the slopes of all pairs, with the range that Kendall's statistic gives. A step, a
few wild values or noise around a level do not move it. A gate, for which one step is growth too, takes least squares.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

Point = tuple[float, float]
"""Seconds, value."""
_MOST_POINTS = 120
_DEVIATIONS = 2.58  # the range holds the true slope in 99 of 100
_LEAST_GAIN = 3.0


class Slope(NamedTuple):
    per_second: float
    low: float
    high: float


def derive_slope(points: Sequence[Point]) -> Slope | None:
    """None for fewer than four points or no time between them."""
    chosen = thinned(points)
    slopes = sorted(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for number, earlier in enumerate(chosen)
        for later in chosen[number + 1 :]
        if later[0] > earlier[0]
    )
    if len(chosen) < 4 or not slopes:
        return None
    count = len(chosen)
    spread = _DEVIATIONS * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(round((len(slopes) - spread) / 2), 0)
    high = min(round((len(slopes) + spread) / 2), len(slopes) - 1)
    return Slope(median(slopes), slopes[low], slopes[high])


def thinned(points: Sequence[Point], most: int = _MOST_POINTS) -> list[Point]:
    """Evenly, the last among them."""
    step = max(-(-len(points) // most), 1)
    return list(points[::-1][::step])[::-1]


def median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def settled(points: Sequence[Point]) -> list[Point]:
    """Each value or the next, whichever is lower: what is gone by the next look was only on its way."""
    return [(at, min(value, following[1])) for (at, value), following in pairwise(points)]


def derive_change(points: Sequence[Point]) -> float | None:
    """When the number began to move as it does now: the point where two lines fit much better than one; None where one does."""
    chosen = thinned(points)
    if len(chosen) < 8:
        return None
    origin = chosen[0][0]
    shifted = [(at - origin, value) for at, value in chosen]
    forward, backward = _errors(shifted), _errors([(-at, value) for at, value in shifted[::-1]])[::-1]
    best = min(range(3, len(shifted) - 3), key=lambda cut: forward[cut] + backward[cut], default=None)
    if best is None:
        return None
    two = forward[best] + backward[best]
    # One unit of rounding a point: counts are whole numbers, and a perfect line needs no second one.
    return chosen[best][0] if forward[-1] > _LEAST_GAIN * (two + len(shifted) / 12) else None


def _errors(points: Sequence[Point]) -> list[float]:
    """The squared distance of the first points from their own best line, for each number of points."""
    count = sum_t = sum_v = sum_tt = sum_tv = sum_vv = 0.0
    errors = []
    for at, value in points:
        count += 1
        sum_t, sum_v = sum_t + at, sum_v + value
        sum_tt, sum_tv, sum_vv = sum_tt + at * at, sum_tv + at * value, sum_vv + value * value
        spread = sum_tt - sum_t * sum_t / count
        cross = sum_tv - sum_t * sum_v / count
        errors.append(max(sum_vv - sum_v * sum_v / count - (cross * cross / spread if spread > 0 else 0.0), 0.0))
    return errors


def seconds_until(value: float, mark: float, slope: Slope) -> tuple[float, float | None] | None:
    """Seconds until the mark is reached, soonest and latest by the slope's range; None when it is not on the way there."""
    if value >= mark or slope.high <= 0:
        return None
    latest = (mark - value) / slope.low if slope.low > 0 else None
    return (mark - value) / slope.high, latest


def reached_after(points: Sequence[Point], start: float, mark: float) -> float | None:
    """Seconds from the start until the number first was at the mark."""
    for earlier, later in pairwise(points):
        if earlier[1] < mark <= later[1]:
            share = (mark - earlier[1]) / (later[1] - earlier[1])
            return earlier[0] + share * (later[0] - earlier[0]) - start
    return points[0][0] - start if points and points[0][1] >= mark else None


def slope_per_second(points: Sequence[Point]) -> float:
    """By least squares, a step included; 0 when there is no time between them."""
    # Not the robust slope: it is 0 where everything came at once, unless that was near the middle of the window (of 60 looks with
    # a step after the first third 45 in 100 pairs see it, and the median does not). A gate must see that: what one deployment
    # leaves comes in one step. It also judges windows of two or three looks, for which the robust slope has no answer.
    if len(points) < 2:
        return 0.0
    mean_time = sum(at for at, _ in points) / len(points)
    mean_value = sum(value for _, value in points) / len(points)
    spread = sum((at - mean_time) ** 2 for at, _ in points)
    return sum((at - mean_time) * (value - mean_value) for at, value in points) / spread if spread else 0.0
