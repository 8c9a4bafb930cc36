# SPDX-License-Identifier: Apache-2.0
"""How fast a number grows: the least-squares slope of points in time."""

from __future__ import annotations

from collections.abc import Sequence


def slope_per_second(points: Sequence[tuple[float, float]]) -> float:
    """Of (seconds, value) pairs; 0 when there is no time between them."""
    if len(points) < 2:
        return 0.0
    mean_time = sum(at for at, _ in points) / len(points)
    mean_value = sum(value for _, value in points) / len(points)
    spread = sum((at - mean_time) ** 2 for at, _ in points)
    return sum((at - mean_time) * (value - mean_value) for at, value in points) / spread if spread else 0.0
