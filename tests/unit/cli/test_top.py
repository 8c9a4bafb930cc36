# SPDX-License-Identifier: Apache-2.0
"""The live screen, driven by keys without a terminal."""

from __future__ import annotations

import asyncio

from textual.widgets import DataTable

from zombiescope.analysis.ledger import Account
from zombiescope.cli.screens.makers import MakersScreen
from zombiescope.facts.cgroups import Look
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, EventTier
from zombiescope.pipeline.top import Picture, Row, sorted_rows
from zombiescope.presenters.screen import cells, headline

ROWS = (
    Row(Account("unit:a.service", 50, Counts(9, 9, 0)), Counts(1, 1, 0)),
    Row(Account("path:/[b]*", 2, Counts(99, 99, 97)), Counts(20, 18, 30)),
)
PICTURE = Picture(1e9, Look(60, 8), EventTier.BPF, 0, 2.0, ROWS, (Gap("releases", "none"),))


def test_rows_in_any_order_and_rates_of_the_interval() -> None:
    assert [row.account.maker for row in sorted_rows(PICTURE, "zombies")] == ["unit:a.service", "path:/[b]*"]
    assert [row.account.maker for row in sorted_rows(PICTURE, "releases")] == ["path:/[b]*", "unit:a.service"]
    assert cells(50, Counts(1, 1, 0), 2.0, "m") == ("50", "0.5", "0.5", "0.0", "m")
    assert cells(50, Counts(1, 1, 0), 0.0, "m")[1] == "?"
    assert "52 zombies, 8 live" in headline(1e9, Look(60, 8), "bpf", 0)
    assert "no row" in headline(1e9, Gap("memcg.counted", "no row"), None, 0)


def test_the_screen_draws_and_sorts_by_key() -> None:
    async def story() -> list[str]:
        screen = MakersScreen(lambda: PICTURE, 3600, "zombies")
        seen = []
        async with screen.run_test() as pilot:
            table = screen.query_one(DataTable)
            seen.append(str(table.get_row_at(0)[4]))
            await pilot.press("b")
            await pilot.pause()
            seen.append(str(table.get_row_at(0)[4]))
            await pilot.press("q")
        return seen

    assert asyncio.run(story()) == ["unit:a.service", "path:/[b]*"]
