# SPDX-License-Identifier: Apache-2.0
"""The live screen, driven by keys without a terminal."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import cast

import pytest
from tests.build import V1, V1_MOUNT, Cgroup, ScriptedHost, v1_machine
from textual.widgets import DataTable, Static

from zombiescope.analysis.ledger import Account
from zombiescope.cli.screen import MakersScreen
from zombiescope.facts.cgroups import Look, Sweep
from zombiescope.facts.cores import CoreMode, CoresSeen, Stretch
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, EventTier
from zombiescope.host.access import Host
from zombiescope.pipeline.top import Picture, Row, Signs, SignsWatch, sorted_rows
from zombiescope.presenters.screen import cells, headline, signs_of

SYSTEM, SOFTIRQ = CoreMode.SYSTEM, CoreMode.SOFTIRQ

ROWS = (
    Row(Account("unit:a.service", 50, Counts(9, 9, 0)), Counts(1, 1, 0)),
    Row(Account("path:/[b]*", 2, Counts(99, 99, 97)), Counts(20, 18, 30)),
)
SEEN = CoresSeen(1e9, 60.0, 1.0, 4, ())
SIGNS = Signs(SEEN, Sweep(0.0421, 8, 8, "/memory.stat", 0.01), ())
PICTURE = Picture(1e9, Look(60, 8), EventTier.BPF, 0, 2.0, ROWS, (Gap("releases", "none"),), SIGNS)


def test_rows_in_any_order_and_rates_of_the_interval() -> None:
    assert [row.account.maker for row in sorted_rows(PICTURE, "zombies")] == ["unit:a.service", "path:/[b]*"]
    assert [row.account.maker for row in sorted_rows(PICTURE, "releases")] == ["path:/[b]*", "unit:a.service"]
    assert cells(50, Counts(1, 1, 0), 2.0, "m") == ("50", "0.5", "0.5", "0.0", "m")
    assert cells(50, Counts(1, 1, 0), 0.0, "m")[1] == "?"
    assert "52 zombies, 8 live" in headline(1e9, Look(60, 8), "bpf", 0)
    assert "no row" in headline(1e9, Gap("memcg.counted", "no row"), None, 0)


def test_cores_sweep_and_resets_in_a_few_words() -> None:
    assert signs_of(SIGNS.cores, SIGNS.sweep, SIGNS.resets) == (
        "4 cores, none saturated in 60 s",
        "sweep 42.1 ms over 8",
        "no resets",
    )
    long, short = (Stretch(3, 1e9, seconds, mode, 0.97) for seconds, mode in ((12.0, SYSTEM), (0.6, SOFTIRQ)))
    held = SEEN._replace(stretches=(long, short, short._replace(core=0)))
    resets = (("eth0", "poll starvation", 2), ("eth1", "transmit timeout", 1))
    found = signs_of(held, Sweep(0.0421, 900, 8, "/memory.stat", 0.01), resets)
    assert found == (
        "core 3 and 1 more saturated: 12.6 s in 60 s, most by system",
        "sweep about 42.1 ms over 900",
        "3 resets, eth0 poll starvation 2",
    )
    gap = Gap("x", "may not be read")
    assert all("may not be read" in words for words in signs_of(gap, gap, gap))


def test_the_signs_of_this_host_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a machine in memory: a core that is held while it is watched, and a sweep that is timed once."""
    ticks = [b"cpu0 0 0 %d %d 0 0 0 0 0 0\nintr 0\n" % (busy, 100) for busy in range(100, 1300, 100)]
    host = ScriptedHost(v1_machine({b"/a": Cgroup(zombies=3)}))
    host.change({b"/proc/stat": [*ticks]})
    monkeypatch.setattr("zombiescope.watching.nics.open_kernel_log", lambda *_, **__: Gap("log", "refused"))
    watch = SignsWatch(cast("Host", host), V1)
    signs = watch.read()
    for _ in range(8):
        host.wait(1.0)
        signs = watch.read()
    watch.close()
    assert isinstance(signs.cores, CoresSeen)
    assert [stretch.core for stretch in signs.cores.stretches] == [0]
    assert isinstance(signs.sweep, Sweep)
    assert signs.sweep.cgroups == 2
    assert signs.resets == Gap("resets", "refused")
    before = len(host.reads)
    host.waited += 301
    watch.read()
    assert V1_MOUNT + b"/a/memory.stat" in host.reads[before:], "timed again after five minutes"


def test_the_screen_draws_and_sorts_by_key() -> None:
    async def story() -> list[str]:
        screen = MakersScreen(lambda: PICTURE, 3600, "zombies")
        seen = []
        async with screen.run_test() as pilot:
            table = screen.query_one(DataTable)
            seen.append(str(table.get_row_at(0)[4]))
            seen.append(str(screen.query_one("#signs", Static).render()))
            await pilot.press("b")
            await pilot.pause()
            seen.append(str(table.get_row_at(0)[4]))
            await pilot.press("q")
        return seen

    assert asyncio.run(story()) == [
        "unit:a.service",
        "4 cores, none saturated in 60 s  sweep 42.1 ms over 8  no resets",
        "path:/[b]*",
    ]


def test_whoever_reads_further_down_stays_there_and_the_headline_stays_in_sight() -> None:
    rows = tuple(Row(Account(f"unit:{n}.service", 100 - n, Counts(n, n, 0)), Counts(n, n, 0)) for n in range(60))

    async def story() -> None:
        screen = MakersScreen(lambda: PICTURE._replace(rows=rows), 3600, "zombies")
        async with screen.run_test(size=(100, 30)) as pilot:
            table = screen.query_one(DataTable)
            await pilot.press(*["down"] * 40)
            offset = table.scroll_y
            assert offset > 0
            screen.look()
            await pilot.pause()
            assert (table.cursor_row, table.scroll_y) == (40, offset)
            assert screen.screen.scroll_y == 0, "only the table scrolls"
            await pilot.click(DataTable, offset=(14, 0))
            await pilot.pause()
            assert screen.order == "births"
            titles = [str(column.label).strip() for column in table.ordered_columns]
            assert titles == ["zombies", "births/s ▼", "deaths/s", "releases/s", "maker"]
            assert (table.cursor_row, str(table.get_row_at(0)[4])) == (0, "unit:59.service")
            await pilot.click(DataTable, offset=(60, 0))
            await pilot.pause()
            assert screen.order == "births", "by name nobody asked"

    asyncio.run(story())


def test_the_tables_do_without_the_extra_of_the_screen() -> None:
    program = (
        "import sys; sys.modules['textual'] = None; from zombiescope.cli.main import main; main(['top', '--help'])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (said.stderr, said.stdout.startswith("Usage: zombiescope top")) == ("", True)
