# SPDX-License-Identifier: Apache-2.0
"""The three forms of an autopsy say the same, and every null of the JSON has a gap."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from rich.console import Console

from zombiescope.analysis.autopsy import Autopsy, derive_autopsy
from zombiescope.analysis.scan import Population
from zombiescope.facts.cgroups import CountSource, Identity, Shape, Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import Pages, Pin, PinKind, References, Tier, Walk, Zombie
from zombiescope.pipeline.autopsy import Choice, chosen
from zombiescope.presenters.autopsy_json import COLUMNS, render_autopsy, render_autopsy_csv
from zombiescope.presenters.autopsy_text import GROUPS, AutopsyShown, render_autopsy_text
from zombiescope.presenters.document import null_fields

NOTHING = Gap("x", "not looked for")
SNAPSHOT = Snapshot(
    1_800_000_000.0,
    "this host",
    Identity("n", "6.18", "b", 9.0),
    Shape(2, 1),
    NOTHING,
    NOTHING,
    NOTHING,
    NOTHING,
    NOTHING,
)
HOSTILE = b"/srv/[bold]a\nb\xff<script>"


def built(count: int = 3) -> tuple[Walk, Autopsy]:
    pins = (
        Pin(PinKind.PAGE_CACHE, HOSTILE, HOSTILE, "ext4", "8:1", 7, 2, sampled=False, mapped=0, dirty=0),
        Pin(PinKind.SOCKET, None, None, None, None, None, None, sampled=False),
    )
    zombies = tuple(
        Zombie(
            n,
            n,
            b"/a/z%d," % n,
            2,
            b"/a",
            1_799_999_000.0,
            None,
            References(3, 2, 0, 0, 1),
            Pages(2, 0, 0, 0, None),
            pins,
            8192,
            0,
        )
        for n in range(count)
    )
    walk = Walk(Tier.BPF, zombies, 4, (Gap("zombies[].died_at", "the kernel does not keep it"),), 1, 5000, 5000)
    return walk, derive_autopsy(walk, Population(4 + count, 4, CountSource.PROC_CGROUPS), None)


def document(limit: int = 20) -> dict[str, Any]:
    walk, autopsy = built()
    found: dict[str, Any] = json.loads(json.dumps(render_autopsy(SNAPSHOT, walk, autopsy, (), limit)))
    return found


def test_json_is_the_contract() -> None:
    found = document()
    assert found["schema"] == "zombiescope.autopsy/1"
    assert found["tier"] == "bpf"
    first = found["zombies"][0]
    assert {"id", "path", "maker", "born_at", "died_at", "refs", "pages", "pins", "freed_by"} <= set(first)
    assert set(first["pages"]) == {"file", "shmem", "anon", "unevictable", "swap"}
    assert {"kind", "path", "path_in_fs", "fstype", "device", "inode", "pages", "sampled"} <= set(first["pins"][0])
    assert first["born_at"] == "2027-01-15T07:43:20.000Z"
    assert first["pins"][0]["path"] == r"/srv/[bold]a\x0ab\xff<script>"
    assert found["totals"]["by_pin"] == {"page_cache": 3, "socket": 3}


def test_every_null_has_exactly_one_gap() -> None:
    found = document()
    facts = [gap["fact"] for gap in found.pop("gaps")]
    assert sorted(facts) == sorted(set(facts))
    assert set(null_fields(found)) == set(facts)


@pytest.mark.parametrize(("limit", "listed"), [(2, 2), (0, 3), (20, 3)])
def test_the_limit_shortens_the_list_and_never_the_totals(limit: int, listed: int) -> None:
    found = document(limit)
    assert (len(found["zombies"]), found["totals"]["zombies"]) == (listed, 3)


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("group", [None, *GROUPS])
def test_text_is_plain_and_names_what_matters(width: int, group: str | None) -> None:
    walk, autopsy = built()
    console = Console(width=width, file=io.StringIO(), highlight=False)
    for part in render_autopsy_text(SNAPSHOT, walk, autopsy, (), AutopsyShown(2, group)):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert text.startswith("3 zombies hold 6 pages")
    assert "and 1 more" in text
    assert "[bold]" in text.replace("\n", "").replace(" ", "")
    assert all(character.isprintable() or character == "\n" for character in text)


def test_csv_reads_back() -> None:
    rows = list(csv.DictReader(io.StringIO(render_autopsy_csv(built()[1].bodies))))
    assert len(rows) == 3
    assert set(rows[0]) == set(COLUMNS)
    assert rows[1]["path"] == "/a/z1,"
    assert rows[0]["files"] == r"/srv/[bold]a\x0ab\xff<script>"
    assert rows[0]["swap_pages"] == ""


def test_no_zombies_is_said_in_one_line() -> None:
    walk = Walk(Tier.BPF, (), 4)
    (headline, *_) = render_autopsy_text(SNAPSHOT, walk, derive_autopsy(walk, None, None), ())
    assert str(headline) == "no zombies"


def test_the_pages_of_a_file_are_the_files_and_not_the_zombies() -> None:
    shared = Pin(PinKind.TMPFS, b"/dev/shm/log", b"/log", "tmpfs", "0:9", 3, 1, sampled=False, mapped=0, dirty=0)
    large = shared._replace(path=b"/dev/shm/large", path_in_fs=b"/large", inode=4, pages=500)
    sampled = shared._replace(path=b"/dev/shm/part", path_in_fs=b"/part", inode=5, sampled=True)
    one = built(1)[0].zombies[0]
    dead = one._replace(pages=Pages(0, 502, 0, 0, 0), pins=(shared, large, sampled))
    walk = Walk(Tier.BPF, (dead, dead._replace(id=2, serial=2)), 5)
    found = derive_autopsy(walk, Population(7, 5, CountSource.PROC_CGROUPS), None)
    held = [GROUPS["file"](body) for body in found.bodies]
    assert held == [{"/dev/shm/log": 1, "/dev/shm/large": 500, "/dev/shm/part": None}] * 2
    assert GROUPS["maker"](found.bodies[0]) == {"path:/a/z*,": 502}


def test_pages_of_the_disk_itself_are_said_to_be_in_no_file() -> None:
    """Fault 10: they were printed as `page_cache / (1 page)`."""
    pin = Pin(PinKind.PAGE_CACHE, None, b"/dev/loop0", "bdev", "7:0", 0, 1, sampled=False, mapped=0, dirty=0)
    dead = built(1)[0].zombies[0]._replace(pins=(pin,))
    walk = Walk(Tier.BPF, (dead,), 5)
    console = Console(file=io.StringIO(), width=200)
    for part in render_autopsy_text(
        SNAPSHOT, walk, derive_autopsy(walk, Population(6, 5, CountSource.PROC_CGROUPS), None), ()
    ):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    assert "of the block device /dev/loop0 itself, in no file of it (1 page)" in console.file.getvalue()


def test_a_choice_among_zombies_that_nobody_saw_is_not_known_and_never_none() -> None:
    walk = Walk(Tier.RESIDUAL, (), 5)
    every = derive_autopsy(walk, Population(29, 5, CountSource.PROC_CGROUPS), None)
    for choice in (Choice(maker="unit:*"), Choice(older_than_seconds=60.0)):
        found = chosen(every, choice, 1_800_000_000.0)
        assert found.totals.zombies is None
        console = Console(file=io.StringIO(), width=200)
        for part in render_autopsy_text(SNAPSHOT, walk, found, ()):
            console.print(part)
        assert isinstance(console.file, io.StringIO)
        first = console.file.getvalue().splitlines()[0]
        assert first.startswith("24 zombies, but they could not be seen one by one"), first
        assert "no zombies" not in console.file.getvalue()
