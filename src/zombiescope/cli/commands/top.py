# SPDX-License-Identifier: Apache-2.0
"""`zombiescope top`: births, deaths, releases and zombies by maker, live."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import ClassVar

import click
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import DataTable, Footer, Static

from zombiescope.cli.options import root_option, same_place
from zombiescope.errors import EXIT_FINE, EXIT_INTERRUPTED, IS_ONE_FILE, UsageError
from zombiescope.host.access import Host
from zombiescope.pipeline.opening import open_host
from zombiescope.pipeline.top import Picture, Watching, sorted_rows
from zombiescope.presenters.screen import COLUMNS, ORDERS, cells, headline, signs_of


class MakersScreen(App[None]):
    TITLE = "zombiescope top"
    CSS = "DataTable { height: 1fr; }"  # many makers scroll below the headline, not with it
    BINDINGS: ClassVar[list[BindingType]] = [
        ("z", "order('zombies')", "zombies"),
        ("b", "order('births')", "births"),
        ("d", "order('deaths')", "deaths"),
        ("r", "order('releases')", "releases"),
        ("q", "quit", "quit"),
    ]

    def __init__(self, picture: Callable[[], Picture], interval: float, order: str) -> None:
        super().__init__()
        self._picture, self._interval = picture, interval
        self.order = order
        self.latest: Picture | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="headline")
        yield Static(id="signs")
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Static(id="gaps")
        yield Footer()

    def on_mount(self) -> None:
        table: DataTable[Text] = self.query_one(DataTable)
        for name, key in zip(COLUMNS, (*ORDERS, "maker"), strict=True):
            table.add_column(self._title(name, key), key=key)
        self.look()
        self.set_interval(self._interval, self.look)

    def look(self) -> None:
        self.latest = self._picture()
        self.draw()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """A click on a title is the same as its key."""
        if event.column_key.value in ORDERS:
            self.action_order(str(event.column_key.value))

    def action_order(self, order: str) -> None:
        assert order in ORDERS
        self.order = order
        table = self.query_one(DataTable)
        for name, column in zip(COLUMNS, table.ordered_columns, strict=True):
            column.label = self._title(name, column.key.value)
        self.draw()
        table.move_cursor(row=0)

    def draw(self) -> None:
        picture = self.latest
        if picture is None:
            return
        self.query_one("#headline", Static).update(Text(headline(picture.at, picture.look, picture.tier, picture.lost)))
        if signs := picture.signs:
            words = signs_of(signs.cores, signs.sweep, signs.resets)
            self.query_one("#signs", Static).update(Text("  ".join(words)))
        gaps = "\n".join(f"gap: {gap.fact}: {gap.reason}" for gap in picture.gaps[:3])
        self.query_one("#gaps", Static).update(Text(gaps))
        table = self.query_one(DataTable)
        place, offset = table.cursor_row, table.scroll_y
        table.clear()
        for row in sorted_rows(picture, self.order):
            *figures, maker = cells(row.account.zombies, row.lately, picture.seconds, row.account.maker)
            # A name is no markup.
            table.add_row(*(Text(figure, justify="right") for figure in figures), Text(maker))
        # Whoever reads further down stays there.
        table.move_cursor(row=min(place, max(table.row_count - 1, 0)), scroll=False)
        table.scroll_to(y=offset, animate=False)

    def _title(self, name: str, key: str | None) -> Text:
        if key not in ORDERS:
            return Text(name)
        return Text(name + (" ▼" if key == self.order else "  "), justify="right")


EPILOG = """\b
Examples:
  zombiescope top                        full screen with the extra [tui]; a plain table without
  zombiescope top --sort births          most births first
  zombiescope top --plain --count 3      three tables, for a file or a pipe
"""
_MOST_ROWS = 30
NEXT = "to see what holds them: {}zombiescope autopsy"
_NO_SCREEN = (
    "the full screen is not in the one-file build; it comes with pip install 'zombiescope[tui]' (Python 3.11 or newer)"
)


@click.command(epilog=EPILOG)
@click.option(
    "--interval", type=click.FloatRange(0.2, 3600), default=2.0, show_default=True, help="Seconds between looks."
)
@click.option("--count", type=click.IntRange(min=1), help="Exit after this many looks.")
@click.option(
    "--sort", "order", type=click.Choice(ORDERS), default="zombies", show_default=True, help="Sort by this, most first."
)
@click.option("--plain", is_flag=True, help="A plain table, even where the full screen could be drawn.")
@root_option
def top(*, interval: float, count: int | None, order: str, plain: bool, root: bytes | None) -> int:
    """Births, deaths, releases and zombies by maker, as they happen; saturated cores, the time of one sweep and resets of network
    cards above them. Reads only; q or Ctrl-C ends it."""
    host = open_host(root)
    if not host.is_live:
        raise UsageError(
            f"cannot watch {host.label}",
            "nothing happens in a recording or a folder",
            f"zombiescope doctor{same_place(root)}",
        )
    watching = Watching(host)
    try:
        if not plain and count is None and sys.stdout.isatty() and find_spec("textual") is not None:
            MakersScreen(watching.picture, interval, order).run()
            return EXIT_FINE
        return _tables(host, watching, order, interval, count)
    finally:
        watching.close()


def _tables(host: Host, watching: Watching, order: str, interval: float, count: int | None) -> int:
    """One after the other, until there are enough or a person ends it; then what to type next."""
    shown = 0
    code = EXIT_FINE
    try:
        while count is None or shown < count:
            host.wait(interval)
            _draw(watching.picture(), order)
            shown += 1
    except KeyboardInterrupt:
        click.echo()
        code = EXIT_INTERRUPTED
    if shown:
        click.echo(NEXT.format("" if os.geteuid() == 0 else "sudo "))
    return code


def _draw(picture: Picture, order: str) -> None:
    from rich.console import Console  # noqa: PLC0415 (drawing is loaded only when it is needed)
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from zombiescope.presenters.layout import unknown_block  # noqa: PLC0415

    console = Console(highlight=False, emoji=False)
    if console.is_terminal:
        console.clear()
    console.print(Text(headline(picture.at, picture.look, picture.tier, picture.lost)))
    if signs := picture.signs:
        console.print(Text("  ".join(signs_of(signs.cores, signs.sweep, signs.resets))))
    table = Table(box=None, pad_edge=False)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "maker" else "right", no_wrap=True, overflow="ellipsis")
    for row in sorted_rows(picture, order)[:_MOST_ROWS]:
        table.add_row(*map(Text, cells(row.account.zombies, row.lately, picture.seconds, row.account.maker)))
    console.print(table)
    for part in unknown_block(picture.gaps):
        console.print(part)
    if IS_ONE_FILE and console.is_terminal:
        console.print(Text(_NO_SCREEN, style="dim"))
