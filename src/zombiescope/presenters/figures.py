# SPDX-License-Identifier: Apache-2.0
"""Numbers as a person reads them. A number we do not have is a question mark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from zombiescope.presenters.layout import longest_piece, wrapped

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
    if seconds < 0.9995e-3:  # what rounds up to a thousand of a unit is one of the next
        return f"{seconds * 1e6:.0f} us"
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{hours:.1f} h" if hours < 48 else f"{days:.1f} days"


_GAP = 2
Cell = str | Text


class Column(NamedTuple):
    name: str
    is_number: bool = True
    least_width: int | None = None
    """May be folded between words, but not below this width; None means never."""


class Fitting:
    """A table where there is room for it, else a line for each figure. Column `about` says what the row is about. `is_headed`
    shows the names of the columns."""

    def __init__(
        self,
        columns: Sequence[Column],
        rows: Sequence[Sequence[Cell]],
        *,
        indent: int = 0,
        is_headed: bool = True,
        about: int = 0,
    ) -> None:
        self._columns = columns
        self._rows = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
        self._indent = indent
        self._is_headed = is_headed
        self._about = about % len(columns)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        widths = self._widths(options.max_width - self._indent - _GAP * (len(self._columns) - 1))
        yield from self._lines(options.max_width) if widths is None else self._table(widths)

    def _widths(self, room: int) -> list[int] | None:
        """Of each column; None where they do not fit without breaking a word."""
        whole = [max(map(cell_len, self._texts(number)), default=0) for number in range(len(self._columns))]
        least = [self._least(number, width) for number, width in enumerate(whole)]
        if sum(least) > room:
            return None
        spare = room - sum(least)
        for number in range(len(least)):
            more = min(whole[number] - least[number], spare)
            least[number] += more
            spare -= more
        return least

    def _texts(self, number: int) -> list[str]:
        named = [self._columns[number].name] if self._is_headed else []
        return [*named, *(row[number].plain for row in self._rows)]

    def _least(self, number: int, whole: int) -> int:
        wanted = self._columns[number].least_width
        if wanted is None:
            return whole
        return min(max(wanted, *map(longest_piece, self._texts(number)), 0), whole)

    def _table(self, widths: list[int]) -> Iterator[Text]:
        if self._is_headed:
            yield from self._row([Text(column.name, style="bold") for column in self._columns], widths)
        for row in self._rows:
            yield from self._row(row, widths)

    def _row(self, row: Sequence[Text], widths: list[int]) -> Iterator[Text]:
        cells = [wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for beside in zip_longest(*cells, fillvalue=Text()):
            line = Text(" " * self._indent)
            for number, (cell, width) in enumerate(zip(beside, widths, strict=True)):
                missing = " " * (width - cell_len(cell.plain))
                gap = " " * _GAP if number else ""
                line = (
                    line.append(gap + missing).append_text(cell)
                    if self._columns[number].is_number
                    else (line.append(gap).append_text(cell).append(missing))
                )
            line.rstrip()
            yield line

    def _lines(self, width: int) -> Iterator[Text]:
        if self._is_headed and self._columns[self._about].name:
            yield from wrapped(Text(self._columns[self._about].name, style="bold"), width)
        for row in self._rows:
            if not self._is_headed:
                yield from _below("  ", Text(" ").join(cell for cell in row if cell), width)
                continue
            yield from wrapped(row[self._about], width)
            for number, cell in enumerate(row):
                if number != self._about and cell:
                    name = self._columns[number].name
                    yield from _below("  ", Text(f"{name} " if name else "").append_text(cell), width)


def _below(margin: str, text: Text, width: int) -> Iterator[Text]:
    yield from (Text(margin).append_text(line) for line in wrapped(text, width - len(margin)))
