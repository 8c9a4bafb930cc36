# SPDX-License-Identifier: Apache-2.0
"""Numbers as a person reads them. A number we do not have is a question mark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

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


_GAP = 2


class Column(NamedTuple):
    name: str
    is_number: bool = True
    least_width: int | None = None
    """May be folded to this width; None means never."""


class Fitting:
    """The first column says what the row is about. `is_headed` shows the names of the columns."""

    def __init__(
        self, columns: Sequence[Column], rows: Sequence[Sequence[str]], *, indent: int = 0, is_headed: bool = True
    ) -> None:
        self._columns = columns
        self._rows = rows
        self._indent = indent
        self._is_headed = is_headed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        least = self._indent + sum(_GAP + self._least_width(number) for number in range(len(self._columns))) - _GAP
        yield self._table() if least <= options.max_width else self._lines()

    def _least_width(self, number: int) -> int:
        column = self._columns[number]
        if column.least_width is not None:
            return column.least_width
        names = [column.name] if self._is_headed else []
        return max(len(text) for text in [*names, *(row[number] for row in self._rows)])

    def _table(self) -> Table:
        table = Table(
            box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0), show_header=self._is_headed
        )
        if self._indent:
            table.add_column(min_width=self._indent - _GAP)
        for column in self._columns:
            table.add_column(
                column.name,
                justify="right" if column.is_number else "left",
                no_wrap=column.least_width is None,
                min_width=column.least_width,
                overflow="fold",
            )
        for row in self._rows:
            table.add_row(*([""] if self._indent else []), *map(Text, row))
        return table

    def _lines(self) -> Text:
        lines: list[str] = []
        for row in self._rows:
            if not self._is_headed:
                lines.append(f"  {' '.join(row)}")
                continue
            figures = zip(self._columns[1:], row[1:], strict=True)
            lines += [row[0], *(f"  {column.name} {figure}" for column, figure in figures)]
        return Text("\n".join(lines), overflow="fold")
