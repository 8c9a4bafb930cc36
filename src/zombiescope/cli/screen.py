# SPDX-License-Identifier: Apache-2.0
"""The live screen of `top` in Textual: a sortable table by maker that refreshes by itself."""

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import DataTable, Footer, Static

from zombiescope.pipeline.top import Picture, sorted_rows
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
