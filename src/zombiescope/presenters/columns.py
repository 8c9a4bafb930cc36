# SPDX-License-Identifier: Apache-2.0
"""Tens of thousands of rows as columns, each in its shortest form: one value for all, a dictionary, differences, or as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Value = str | int | float | None
_WORTH_A_DICTIONARY = 4
"""Each word must stand for so many rows, on the average."""


def render_column(values: Sequence[Value]) -> dict[str, Any]:
    words = dict.fromkeys(values)
    if len(words) <= 1:
        return {"constant": next(iter(words), None)}
    if len(words) * _WORTH_A_DICTIONARY <= len(values):
        codes = {word: number for number, word in enumerate(words)}
        return {"dictionary": list(words), "codes": [codes[value] for value in values]}
    return {"values": list(values)}


def render_numbers(values: Sequence[float | None], scale: float = 1) -> dict[str, Any]:
    """Whole steps of `scale`, as differences; what is not known stays unknown."""
    steps = [None if value is None else round(value / scale) for value in values]
    if len(set(steps)) <= 1:
        only = steps[0] if steps else None
        return {"constant": None if only is None else only * scale}
    found: list[int | None] = []
    before = 0
    for step in steps:
        if step is None:
            found.append(None)
        else:
            found.append(step - before)
            before = step
    return {"deltas": found} if scale == 1 else {"deltas": found, "scale": scale}
