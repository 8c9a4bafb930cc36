# SPDX-License-Identifier: Apache-2.0
"""The cores as a person and as a program see them: 80 columns, no colour, 192 cores, nothing seen, nothing to be had."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from zombiescope.facts.cgroups import Identity
from zombiescope.facts.cores import Blame, Blamed, CoreMode, CoresSeen, CoreTime, CoreUse, CoreWindow, Share, Stretch
from zombiescope.facts.gap import Gap
from zombiescope.pipeline.cores import CoresAnswer
from zombiescope.presenters.cores import letter_of, render_cores, render_cores_text, strip
from zombiescope.presenters.document import null_fields

START = 1_700_000_000.0
IDENTITY = Identity("node-1", "6.18", "boot", 1.0)
BURNT = Blamed(
    1, START + 2, 190, (Share("mem_cgroup_iter", 0.6),), (Share("reclaim", 0.9),), (Share("kubelet\\x1b", 1.0),)
)


def use(core: int, begin: int = 0, end: int = 0) -> CoreUse:
    """Idle, and in the kernel between two tenths."""
    windows = tuple(
        CoreWindow(START + at / 10, 0.1, CoreTime(system=0.1) if begin <= at < end else CoreTime(idle=0.1))
        for at in range(100)
    )
    return CoreUse(core, CoreTime(system=(end - begin) / 10, idle=10 - (end - begin) / 10), windows)


def seen(cores: int, *, saturated: bool = True) -> CoresSeen:
    stretches = (Stretch(1, START + 2, 2.0, CoreMode.SYSTEM, 0.99),) if saturated else ()
    uses = tuple(use(core, *((20, 40) if saturated and core == 1 else (0, 0))) for core in range(cores))
    blame = Blame(99, 190, 0, (BURNT,)) if saturated else Blame(0, 0, 0, ())
    return CoresSeen(START, 10.0, 0.1, cores, stretches, uses, blame)


def text(found: CoresSeen | Gap, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, emoji=False)
    for part in render_cores_text(found):
        console.print(part)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


@pytest.mark.parametrize("cores", [1, 2, 32, 192])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_it_fits_and_a_saturated_core_has_a_row_of_its_own(cores: int, width: int) -> None:
    lines = text(seen(cores, saturated=cores > 1), width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 50
    if cores > 1:
        assert lines[0].startswith("core 1 was 2.0 s in the kernel without a break")
        row = next(line for line in lines if line.split()[:1] == ["1"])
        assert 0.15 < row.count("K") / (row.count("K") + row.count(".")) < 0.3
        assert sum("K" in line for line in lines if line.split()[:1] != ["K"]) == 1
    if cores == 192:
        assert any("191 others" in line for line in lines)


def test_who_burnt_it() -> None:
    shown = text(seen(2))
    assert "for    kubelet\\x1b 100%" in shown
    assert "doing  reclaim 90%" in shown
    assert "in     mem_cgroup_iter 60%" in shown


def test_nothing_seen_says_how_long() -> None:
    assert text(seen(2, saturated=False)).startswith("no saturated core: not seen in 10 s on 2 cores")


def test_no_permission_to_sample_leaves_the_rest() -> None:
    refused = seen(2)._replace(blame=Gap("stretches[].blame", "perf_event_open: permission denied", "run as root"))
    shown = text(refused)
    assert "core 1 was 2.0 s" in shown
    assert "who held the core: perf_event_open: permission denied (run as root)" in shown
    document = render_cores(CoresAnswer(START, IDENTITY, refused), refused)
    assert null_fields(document) == ["stretches[].blame"] == [gap["fact"] for gap in document["gaps"]]


def test_the_document() -> None:
    found = seen(2)
    document = json.loads(json.dumps(render_cores(CoresAnswer(START, IDENTITY, found), found), allow_nan=False))
    assert document["schema"] == "zombiescope.cores/1"
    (stretch,) = document["stretches"]
    assert (stretch["core"], stretch["begin"], stretch["seconds"]) == (1, "2023-11-14T22:13:22.000Z", 2.0)
    assert stretch["blame"]["functions"] == [{"name": "mem_cgroup_iter", "share": 0.6}]
    assert document["saturated"] == {
        "seconds": 2.0,
        "longest_seconds": 2.0,
        "by_mode": {"system": 2.0, "softirq": 0.0, "irq": 0.0, "steal": 0.0},
    }
    assert document["cores"][1]["system"] == 0.2
    assert document["cores"][1]["strip"] == "." * 20 + "K" * 20 + "." * 60
    assert null_fields(document) == []


def test_cores_that_could_not_be_watched() -> None:
    gap = Gap("cores", "/proc/stat: no such file")
    document = render_cores(CoresAnswer(START, IDENTITY, gap), gap)
    assert set(null_fields(document)) | {"stretches", "cores"} == {each["fact"] for each in document["gaps"]}
    assert text(gap).startswith("the cores could not be watched: /proc/stat: no such file")


@pytest.mark.parametrize(
    ("time", "letter"),
    [
        (CoreTime(idle=1), "."), (CoreTime(user=1), "u"), (CoreTime(system=0.8, user=0.2), "K"),
        (CoreTime(system=0.6, user=0.4), "k"),
        (CoreTime(softirq=1), "s"), (CoreTime(irq=1), "i"), (CoreTime(steal=1), "t"), (CoreTime(iowait=1), "w"),
        (CoreTime(lost=1), "?"), (CoreTime(), "?"), (CoreTime(user=0.3, idle=0.7), "."),
    ],
)  # fmt: skip
def test_letters(time: CoreTime, letter: str) -> None:
    assert letter_of(time) == letter


def test_a_short_saturation_is_not_averaged_away() -> None:
    assert "K" in strip(use(0, 50, 52).windows, START, 10.0, 12)


def test_time_without_an_account_is_neither_idle_nor_watched() -> None:
    time = CoreTime(user=1.0, system=1.0, idle=0.0, lost=8.0)
    found = CoresSeen(START, 10.0, 0.1, 1, (), (CoreUse(0, time, (CoreWindow(START, 10.0, time),)),))
    told = text(found)
    assert told.startswith("whether a core was saturated is not known: 80% of 10 s on 1 core is unaccounted")
    assert "user  50%  kernel  50%  unaccounted  80%" in told
