# SPDX-License-Identifier: Apache-2.0
"""Numbers as a person reads them. A number we do not have is a question mark."""

from __future__ import annotations

UNKNOWN = "?"


def count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Bytes in powers of 1024, three digits."""
    if value is None:
        return UNKNOWN
    amount, units = float(value), iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while amount >= 1000 and (following := next(units, None)):
        amount, unit = amount / 1024, following
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.3g} {unit}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{hours:.1f} h" if hours < 48 else f"{days:.1f} days"
