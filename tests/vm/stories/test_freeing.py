# SPDX-License-Identifier: Apache-2.0
"""Story (f): each lever that frees, pulled on a real kernel; and what a plan predicts is what goes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import PAGESIZE
from pathlib import Path

import pytest
from tests.vm.cells import Cell, Hierarchy
from tests.vm.stories.groves import Grove, dying, memory_mount, settled, zombies_on_v1
from tests.vm.stories.pins import PINS, SWAP_ALONE, SWAP_CACHE, Pin, anonymous_pages
from tests.vm.stories.product import document

from zombiescope.execution.executor import Executor, Surroundings
from zombiescope.execution.journal import Journal, read_entries
from zombiescope.execution.moves import Hands
from zombiescope.host.writes import Writer
from zombiescope.remedies.plan import Change, DropCaches, Expected, Reclaim, ReclaimWay, Risk, Step, SwapIn, Undo
from zombiescope.remedies.receipts import StepReceipt

pytestmark = pytest.mark.in_ci()  # where everything runs: its recipes are CI's in the story of remedies

EACH = 8
BY_KIND = {pin.kind: pin for pin in PINS}
NODES = sorted(Path("/sys/devices/system/node").glob("node*/reclaim"))


def has_page_pins(cell: Cell) -> bool:
    return not cell.reparents


def on_v2(cell: Cell) -> bool:
    return cell.hierarchy is Hierarchy.V2 and has_page_pins(cell)


@contextmanager
def dead(cell: Cell, pin: Pin, name: str, count: int = EACH) -> Iterator[tuple[Grove, Callable[[], int]]]:
    """So many zombies, and how many of them are left; on v1 the kernel counts those of the whole machine."""
    before = zombies_on_v1() if cell.memory_is_v1 else 0
    grove = Grove(cell, name)

    def left() -> int:
        return max(zombies_on_v1() - before, 0) if cell.memory_is_v1 else dying(grove.folder)

    try:
        for number in range(count):
            grove.bury(f"dead{number}", pin.bury)
        assert settled(left, count) == count, "the kernel's own count"
        yield grove, left
    finally:
        grove.close()


def do(change: Change, left: Callable[[], int], state: Path) -> tuple[StepReceipt, list[str]]:
    """One step, by the executor and the writer that `apply` has; what its journal says was done."""
    hands = Hands(Writer(), Journal(str(state / "actions" / "one"), time.time))
    around = Surroundings(left, lambda: None, time.sleep, None)
    words = ("lever", "lever", "pull it", change, "", "zombie-population")
    order = Step(1, *words, Risk.LOW, Undo.NONE, "", Expected(None, None, EACH), needs_consent=False)
    receipt = Executor(hands, around, has_systemd=False).run(order)
    return receipt, [str(entry["do"]) for entry in read_entries(str(state / "actions" / "one")) if "do" in entry]


def reclaim(cell: Cell, way: ReclaimWay, name: str, files: tuple[Path, ...] = ()) -> Reclaim:
    places = files or (memory_mount(cell) / name / way.value,)
    return Reclaim(f"/{name}".encode(), way, tuple(os.fsencode(place) for place in places), EACH * PAGESIZE)


@pytest.mark.cells.with_args(lambda cell: on_v2(cell) and cell.kernel != "5.10")
def test_memory_reclaim_frees_what_cached_pages_hold(cell: Cell, tmp_path: Path) -> None:
    with dead(cell, BY_KIND["page_cache"], "story-reclaim") as (_, left):
        receipt, did = do(reclaim(cell, ReclaimWay.MEMORY_RECLAIM, "story-reclaim"), left, tmp_path)
        assert settled(left, 0, seconds=5) <= 1, receipt
        assert receipt.zombies_freed
        assert set(did) == {"reclaim"}


@pytest.mark.cells.with_args(on_v2)
def test_memory_high_frees_them_where_there_is_no_memory_reclaim_and_is_put_back(cell: Cell, tmp_path: Path) -> None:
    with dead(cell, BY_KIND["page_cache"], "story-high") as (grove, left):
        (grove.folder / "memory.high").write_text("64M")
        receipt, did = do(reclaim(cell, ReclaimWay.MEMORY_HIGH, "story-high"), left, tmp_path)
        assert settled(left, 0, seconds=5) <= 1, receipt
        assert receipt.zombies_freed
        assert set(did) == {"set_file_for_a_moment"}
        assert (grove.folder / "memory.high").read_text().strip() == str(64 << 20)


@pytest.mark.cells.with_args(lambda cell: cell.memory_is_v1 and has_page_pins(cell))
def test_force_empty_frees_them_on_v1(cell: Cell, tmp_path: Path) -> None:
    with dead(cell, BY_KIND["page_cache"], "story-empty") as (_, left):
        receipt, _ = do(reclaim(cell, ReclaimWay.FORCE_EMPTY, "story-empty"), left, tmp_path)
        assert settled(left, 0, seconds=5) <= 1, receipt
        assert receipt.zombies_freed


@pytest.mark.cells.with_args(lambda cell: cell.name in ("6.18-v2", "7.0-v2"))
def test_a_nodes_reclaim_file_frees_them_where_there_is_one(cell: Cell, tmp_path: Path) -> None:
    assert NODES, "from 6.17 on"
    with dead(cell, BY_KIND["page_cache"], "story-node") as (_, left):
        receipt, _ = do(reclaim(cell, ReclaimWay.NODE, "story-node", tuple(NODES)), left, tmp_path)
        assert settled(left, 0, seconds=5) <= EACH // 2, receipt
        assert receipt.zombies_freed


@pytest.mark.cells.with_args(lambda cell: has_page_pins(cell) and cell.kernel != "5.10")
def test_drop_caches_frees_most_of_them(cell: Cell, tmp_path: Path) -> None:
    """Not all: blocks of the file system and pages that a program maps stay."""
    with dead(cell, BY_KIND["page_cache"], "story-drop") as (_, left):
        receipt, did = do(DropCaches(), left, tmp_path)
        assert settled(left, 0, seconds=5) <= EACH // 2, receipt
        assert receipt.zombies_freed
        assert did == ["trigger"]


@pytest.mark.cells.with_args(lambda cell: cell.swap_megabytes and cell.hierarchy is Hierarchy.V2)
def test_swap_that_comes_back_lets_them_go_and_stays_on(cell: Cell, tmp_path: Path) -> None:
    before = Path("/proc/swaps").read_text().splitlines()[1:]
    device = before[0].split()[0]
    with dead(cell, SWAP_ALONE, "story-swap-in") as (_, left):
        _, did = do(SwapIn((device.encode(),)), left, tmp_path)
        assert did == ["swap_in"]
        now = Path("/proc/swaps").read_text().splitlines()[1:]
        assert [line.split()[0] for line in now] == [device]
        assert settled(left, 0, seconds=5) <= EACH // 4, "a CPU keeps the last entries freed for itself a while"


@pytest.mark.cells.with_args(lambda cell: cell.swap_megabytes and on_v2(cell) and cell.kernel != "5.10")
def test_what_is_in_swap_and_still_in_memory_goes_by_reclaim_first(cell: Cell, tmp_path: Path) -> None:
    """Swapped in at once, it would be a page of its file again, and still the dead one's."""
    with dead(cell, SWAP_CACHE, "story-swap-cache") as (grove, left):
        assert int((grove.folder / "memory.swap.current").read_text()) == EACH * PAGESIZE
        # A disk that is quick lets some go at once; most must be there for this to tell anything.
        assert settled(lambda: anonymous_pages(grove.folder) >= EACH // 2, True), "written out, and still in memory"
        scope = ("--below", grove.path, "--seconds", "0")
        names = [each["name"] for each in document("plan", *scope)["steps"] if not each["instead_of"]]
        assert names[:2] == [f"reclaim:{grove.path}", "swap-in"]
        consents = [word for name in names for word in ("--consent", name)]
        done = document("apply", *scope, "--yes", "--window", "0", "--state", str(tmp_path), *consents)
        assert settled(left, 0, seconds=5) <= EACH // 4, done["steps"]


@pytest.mark.parametrize("kind", ["page_cache", "tmpfs", "sysv_shm"])
@pytest.mark.cells.with_args(lambda cell: on_v2(cell) and cell.kernel != "5.10" and not cell.required)
def test_what_is_predicted_is_what_goes(cell: Cell, tmp_path: Path, kind: str) -> None:
    count = 20
    # The pages of the programs that bury are read by the first one after a reclaim, and stay mapped: nobody could promise those.
    with dead(cell, BY_KIND[kind], f"story-{kind}-before", 1):
        pass
    with dead(cell, BY_KIND[kind], f"story-{kind}", count) as (grove, left):
        scope = ("--below", grove.path, "--seconds", "0")
        names = [each["name"] for each in document("plan", *scope)["steps"] if not each["instead_of"]]
        consents = [word for name in names for word in ("--consent", name)]
        done = document("apply", *scope, "--yes", "--window", "0", "--state", str(tmp_path), *consents)
        expected = [each["expected"] for each in done["steps"] if each["expected"] and not each["instead_of"]]
        assert all(each["zombies_freed"] is not None for each in expected), ("no 'cannot know' here", done["steps"])
        predicted = sum(each["zombies_freed"] for each in expected)
        assert predicted >= 0.9 * count, done["steps"]
        assert abs(predicted - (count - settled(left, 0, seconds=5))) <= 0.1 * predicted, done["steps"]
