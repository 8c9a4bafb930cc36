# SPDX-License-Identifier: Apache-2.0
"""`zombiescope top`: births, deaths, releases and zombies by maker, live."""

from __future__ import annotations

import os
from importlib.util import find_spec

import click

from zombiescope import presenters
from zombiescope.cli.command import examples, root_option, same_place, standard_output
from zombiescope.errors import EXIT_FINE, EXIT_INTERRUPTED, IS_ONE_FILE, UsageError
from zombiescope.host.access import Host
from zombiescope.pipeline.opening import open_host
from zombiescope.pipeline.top import Picture, Watching, sorted_rows
from zombiescope.presenters.screen import COLUMNS, ORDERS, cells, headline, signs_of

_MOST_ROWS = 30
NEXT = "to see what holds them: {}zombiescope autopsy"
_NO_SCREEN = (
    "the full screen is not in the one-file build; it comes with pip install 'zombiescope[tui]' (Python 3.11 or newer)"
)


@click.command(
    epilog=examples(
        "zombiescope top                        full screen with the extra [tui]; a plain table without",
        "zombiescope top --sort births          most births first",
        "zombiescope top --plain --count 3      three tables, for a file or a pipe",
    )
)
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
        is_terminal = standard_output().isatty()
        if not plain and count is None and is_terminal and find_spec("textual") is not None:
            from zombiescope.cli.screen import MakersScreen  # noqa: PLC0415 (an extra)

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
    for part in presenters.layout.unknown_block(picture.gaps):
        console.print(part)
    if IS_ONE_FILE and console.is_terminal:
        console.print(Text(_NO_SCREEN, style="dim"))
