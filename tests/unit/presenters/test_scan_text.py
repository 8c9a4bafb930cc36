# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io

from rich.console import Console, RenderableType
from tests.build import case, observed, snapshot
from tests.unit.facts.test_names import HOSTILE

from zombiescope.diagnosis.engine import diagnose
from zombiescope.facts.cgroups import EmptyDirectories, HandedOn, MemoryUse, Residuals, Snapshot, Sweep
from zombiescope.facts.names import shown, unshown
from zombiescope.presenters.doctor_report import Report, render_report
from zombiescope.presenters.doctor_text import Shown, render_report_text
from zombiescope.presenters.scan_json import render_scan
from zombiescope.presenters.scan_text import render_scan_text


def drawn(parts: list[RenderableType], width: int = 400) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None)
    for part in parts:
        console.print(part)
    return file.getvalue()


def text_of(seen: Snapshot, width: int = 100, *, explain: bool = False) -> str:
    return drawn(render_scan_text(observed(seen), diagnose(case(seen)), explain=explain), width)


def test_a_scan_for_a_person() -> None:
    lines = text_of(snapshot(5000, live=100), 200).split("\n")
    assert lines[0].startswith("zombies: 5,000 dead memory cgroups are still in the kernel (5,100 counted, 100 live)")
    assert lines[1].startswith(
        "severity critical · memory on cgroup v1 · counted by /proc/cgroups · this host · kernel 6.1"
    )
    assert lines[3].split() == ["nearest", "live", "parent", "zombies", "file", "shmem", "anon", "swap"]
    assert lines[4].split() == ["/g1", "?", "4", "KiB", "8", "KiB", "0", "B", "0", "B"]
    assert any(line.startswith("cost      kernel memory held: about") for line in lines)
    assert any("one statistics sweep: 12 ms over 100 live cgroups" in line for line in lines)
    assert any(
        line.startswith("unknown   zombies by parent: plain files give only the total on cgroup v1") for line in lines
    )
    assert lines[-2] == "to see the cause and what to do: zombiescope doctor"


def test_what_the_dead_left_to_live_parents_is_said_where_there_is_no_zombie() -> None:
    use = MemoryUse(3 << 20, 1 << 20, 0, 0, 0)
    seen = snapshot(0, live=100)._replace(handed_on=HandedOn(True, {b"/a": use, b"/b\n": use._replace(file=0)}, 2))
    told = (
        "handed on this kernel gives a dead cgroup's memory to its parent instead of keeping a zombie: 5 MiB are charged to 2 live "
        "parents, most to /a (4 MiB), and to none of the live cgroups below; for 2 more parents this is not known"
    )
    assert told in text_of(seen, 400)
    assert "handed on " in drawn(render_report_text(Report(case(seen), diagnose(case(seen))), Shown(explain=True)))
    document = render_scan(observed(seen), diagnose(case(seen)))
    assert [parent["path"] for parent in document["handed_on"]["parents"]] == ["/a", shown(b"/b\n")]
    assert document["handed_on"]["parents_untold"] == 2
    assert render_report(Report(case(seen), diagnose(case(seen))))["handed_on"] == document["handed_on"]
    nothing = seen._replace(handed_on=HandedOn(False, {}))
    assert "handed on" not in text_of(nothing, 400)


def test_that_memory_is_handed_on_is_said_where_it_cannot_be_told_how_much() -> None:
    seen = snapshot(0, live=100)._replace(handed_on=HandedOn(True, {}, 2))
    told = (
        "handed on this kernel gives a dead cgroup's memory to its parent instead of keeping a zombie: how much of the memory "
        "of 2 live parents came from the dead is not known"
    )
    assert told in text_of(seen, 400)
    assert told in drawn(render_report_text(Report(case(seen), diagnose(case(seen))), Shown(explain=True)))
    one = seen._replace(handed_on=HandedOn(True, {}, 1))
    assert "of the memory of one live parent came from the dead" in text_of(one, 400)
    assert "handed on" not in text_of(seen._replace(handed_on=HandedOn(True, {})), 400)


def test_the_formula_is_explained() -> None:
    text = text_of(snapshot(5000, live=100), 300, explain=True)
    assert "zombies 5,000 = counted 5,100 - live 100" in text
    assert "110,600,000 bytes = 5,000 zombies x (14,000 slab" in text
    assert "slowest file of the sweep: /sys/fs/cgroup/memory/memory.stat in 1 ms" in text
    assert "least of three samples" in text


def test_many_parents_are_cut_and_it_is_said() -> None:
    uses = {b"/p%02d" % number: MemoryUse(number, 0, 0, 0, 0) for number in range(1, 14)}
    text = text_of(snapshot(50, residuals=Residuals(uses, frozenset())))
    assert "/p13" in text
    assert "/p03" not in text
    assert "and 3 more parents (--json lists all)" in text


def test_what_was_scaled_up_is_said() -> None:
    text = text_of(snapshot(sweep=Sweep(3.0, 10_000, 200, "", 0.0)), explain=True)
    assert "3 s over 10,000 live cgroups, scaled up from 200" in text
    assert "slowest" not in text


def test_a_narrow_screen_loses_no_figure() -> None:
    uses = {b"/system.slice/some-agent.service": MemoryUse(1 << 40, 0, 0, 0, 0)}
    text = text_of(snapshot(5, residuals=Residuals(uses, frozenset())), 20)
    assert "/system.slice/some-agent.service" in "".join(text.split())
    assert "file 1 TiB" in text


def test_hostile_names_are_shown_and_come_back() -> None:
    names = [b"/" + name for name in HOSTILE if name]
    use = MemoryUse(1, 0, 0, 0, 0)
    seen = snapshot(
        50,
        live=20_000,
        residuals=Residuals(dict.fromkeys(names, use), frozenset()),
        empty_directories=EmptyDirectories(15_000, 15_000, 15_000, tuple(names)),
    )
    rows = render_scan(observed(seen), diagnose(case(seen)))["parents"]
    assert {unshown(row["path"]) for row in rows} == set(names)
    findings = {
        finding["id"]: finding for finding in render_report(Report(case(seen), diagnose(case(seen))))["findings"]
    }
    evidence = findings["visible-leak"]["evidence"]
    assert [unshown(item["value"]) for item in evidence[2:]] == names
    for text in (
        text_of(seen, 600),
        drawn(render_report_text(Report(case(seen), diagnose(case(seen))), Shown(explain=True)), 600),
    ):
        assert all(character.isprintable() or character == "\n" for character in text)
        for name in names[:3]:
            assert shown(name) in text


def test_the_doctor_for_a_person() -> None:
    window = case(snapshot(1000), snapshot(1500, empty=2))
    lines = drawn(render_report_text(Report(window, diagnose(window)), Shown(explain=True)), 120).split("\n")
    assert lines[0].startswith("zombies: 1,500 dead")
    assert lines[1].startswith("severity warning · 24 checks: 1 warning, ")
    assert lines[3] == "chain     1,500 zombies pile up in the kernel"
    start = next(
        n
        for n, line in enumerate(lines)
        if line.startswith("Zombie memory cgroups (warning, zombie-population): 1,500")
    )
    assert [line.split()[:-2] for line in lines[start + 2 : start + 8]] == [
        ["zombies", "1,500", "cgroups"],
        ["counted", "1,510", "cgroups"],
        ["live", "10", "cgroups"],
        ["ratio", "151", "counted", "per", "live"],
        ["kernel", "bytes", "31.6", "MiB"],
        ["zombies", "change", "500", "cgroups", "in", "0", "s"],
    ]
    assert any(line.startswith("fine ") for line in lines)
    assert any("directories that are never removed: 2 of" in line for line in lines)
