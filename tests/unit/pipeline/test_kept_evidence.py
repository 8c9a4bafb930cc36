# SPDX-License-Identifier: Apache-2.0
"""A recording keeps an autopsy: the same zombies, pins and totals come back, without the names of people and programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.build import ScriptedHost, v1_machine

from zombiescope.analysis.scan import Population
from zombiescope.errors import UsageError
from zombiescope.facts.cgroups import (
    Census,
    CountSource,
    Hierarchy,
    HierarchyVersion,
    LiveTree,
    Look,
    MemoryUse,
    Residuals,
)
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import (
    Beside,
    DeadCgroupSocket,
    DeletedTask,
    DeletedTasks,
    PageFreePins,
    PinnedFile,
    Proof,
    SocketCandidates,
)
from zombiescope.facts.zombies import HeldBy, Pages, Pin, PinKind, References, Tier, Walk, Zombie
from zombiescope.host.bundle import open_bundle, pack, publish
from zombiescope.host.known_names import KnownNames
from zombiescope.host.recorder import RecordingHost
from zombiescope.host.recording import Header
from zombiescope.host.scrub import Scrubber
from zombiescope.pipeline.autopsy import NAME, Gathered, dissect, keep, recall
from zombiescope.pipeline.doctor import examine
from zombiescope.pipeline.record import record
from zombiescope.presenters.autopsy_text import render_autopsy_text

FILE = Pin(PinKind.TMPFS, b"/home/alice/x\n", b"/x\n", "tmpfs", "0:23", 7, 1, sampled=False, mapped=0, dirty=0)
REAPED = HeldBy(12, b"s3cret (x)", 44, b"/s3cret.service", reaper=1)
TASK = Pin(PinKind.TASK, None, None, None, None, None, None, sampled=False, holder=REAPED)
HELD = Pin(PinKind.MEMFD, None, b"/memfd:m", "tmpfs", "0:1", 9, 1, sampled=False, holder=HeldBy(13, b"s3cret"))
NONE = Gap("zombies[].pins", "not looked for")


def _zombie(number: int, *pins: Pin) -> Zombie:
    held, pages = References(1, 1, 0, 0, 0), Pages(0, 1, 0, 0, 0)
    return Zombie(
        number, number, b"/alice.slice/z%d" % number, 2, b"/alice.slice", 5.0, None, held, pages, pins, 4096, 0
    )


def _evidence() -> Gathered:
    census = Census(CountSource.PROC_CGROUPS, (Look(5, 2),), LiveTree((b"/", b"/s3cret"), (b"/s3cret",)), None)
    walk = Walk(Tier.BPF, (_zombie(7, FILE), _zombie(8, TASK), _zombie(9, HELD)), 2, (NONE,), 1, 900, 900)
    tasks = DeletedTasks((DeletedTask(b"/gone", None, 12, b"s3cret", "Z", 1),))
    sockets = SocketCandidates((DeadCgroupSocket(4, "tcp", 44),))
    beside = Beside((PinnedFile(b"/", HELD, Proof.MAPPED, (13,)),), PageFreePins(tasks, sockets))
    residuals = Residuals({b"/alice.slice": MemoryUse(0, 8192, 0, None, 0)}, frozenset())
    hierarchy = Hierarchy(HierarchyVersion.V1, b"/sys/fs/cgroup/memory", is_hybrid=False, partial_view="")
    population = Population(5, 2, CountSource.PROC_CGROUPS)
    return Gathered(1000.0, hierarchy, census, walk, population, residuals, beside, ())


def _replayed(outcome: dict[str, Any], folder: Path) -> bytes:
    path = str(folder / "x.tar.gz")
    recorder = RecordingHost(ScriptedHost(v1_machine({})), Scrubber(keeps_names=True))
    examine(recorder, 1)
    recorder.keep_outcome(NAME, outcome)
    publish(path, pack(Header("0", "this host"), recorder.answers), replace=True)
    return path.encode()


def test_zombies_pins_and_totals_come_back(tmp_path: Path) -> None:
    path = _replayed(keep(_evidence(), lambda name: name), tmp_path)
    again = dissect(open_bundle(path))
    assert again.walk.tier is Tier.BPF
    assert [zombie._replace(pins=()) for zombie in again.walk.zombies] == [
        zombie._replace(pins=()) for zombie in _evidence().walk.zombies
    ]
    assert again.walk.zombies[0].pins == (FILE,)
    assert again.autopsy.totals.by_pin == {PinKind.TMPFS: 1, PinKind.TASK: 1, PinKind.MEMFD: 1}
    assert again.autopsy.reconciliation.agree is False  # three pages walked, two by memory.stat: kept as it was
    assert again.snapshot.taken_at == 1000.0


def test_pages_stay_as_large_as_they_were_there(tmp_path: Path) -> None:
    seen = _evidence()
    large = seen._replace(walk=seen.walk._replace(page_bytes=65536))
    again = dissect(open_bundle(_replayed(keep(large, lambda name: name), tmp_path)))
    assert again.autopsy.page_bytes == 65536
    texts = render_autopsy_text(again.snapshot, again.walk, again.autopsy, ())
    assert "3 pages (192 KiB)" in str(texts[0])


def test_an_autopsy_kept_before_the_page_size_was_is_still_read(tmp_path: Path) -> None:
    kept = keep(_evidence(), lambda name: name)
    walk = kept["evidence"][3]
    assert walk.pop() == 4096
    assert dissect(open_bundle(_replayed(kept, tmp_path))).autopsy.page_bytes == 4096


def test_pins_beside_pages_that_an_older_version_kept_are_still_read(tmp_path: Path) -> None:
    kept = keep(_evidence(), lambda name: name)
    tasks, sockets = kept["evidence"][7]
    older = {"SocketCandidates": [[[4, "tcp", "10.1.2.3:80", "", 44, []]], 3, [["/", 4096]], []]}
    nothing = {"Gap": ["x", "y", ""]}
    kept["evidence"][7] = [tasks, nothing, older, nothing]
    found, same = (
        recall(open_bundle(_replayed({"evidence": [*kept["evidence"][:7], pins, []]}, tmp_path)))
        for pins in (kept["evidence"][7], [tasks, sockets])
    )
    assert isinstance(found, Gathered) and found == same
    assert found.beside.pins is not None
    assert found.beside.pins.sockets == SocketCandidates((DeadCgroupSocket(4, "tcp", 44),))
    for garbled in (
        [tasks, nothing, older],
        [tasks, nothing, {"SocketCandidates": [4, 3, [], []]}, nothing],
        5,
        {"a": 1},
    ):
        kept["evidence"][7] = garbled
        with pytest.raises(UsageError):
            recall(open_bundle(_replayed(kept, tmp_path)))


def test_who_and_where_are_left_out() -> None:
    kept = keep(_evidence(), Scrubber(KnownNames(hosts=(b"s3cret-host",), users=(b"alice",))).path)
    text = json.dumps(kept)
    assert not [word for word in ("alice", "s3cret") if word in text]
    assert '[12, "", 44, null, 1' in text
    assert "/home/user1/x" in text


def test_too_large_keeps_the_reason_alone(tmp_path: Path) -> None:
    outcome = keep(_evidence(), lambda name: name, most=100)
    assert list(outcome) == ["why"]
    found = recall(open_bundle(_replayed(outcome, tmp_path)))
    assert isinstance(found, str)
    assert "keeps 0 MiB" in found
    assert dissect(open_bundle(_replayed(outcome, tmp_path))).walk.gaps[0].reason == found


@pytest.mark.parametrize("damaged", [7, [], {"evidence": 3}, [1, 2]])
def test_a_damaged_autopsy_is_refused_with_a_reason(tmp_path: Path, damaged: Any) -> None:
    with pytest.raises(UsageError) as refused:
        dissect(open_bundle(_replayed({"evidence": damaged}, tmp_path)))
    assert "its autopsy is not as one is kept" in refused.value.why


def test_without_a_kept_autopsy_plain_files_answer_and_say_why(tmp_path: Path) -> None:
    path = str(tmp_path / "x.tar.gz")
    record(ScriptedHost(v1_machine({})), path, 1)
    found = dissect(open_bundle(path.encode()))
    assert found.walk.tier is Tier.RESIDUAL
    assert found.walk.gaps[0].reason == "a recording holds files, not the kernel's memory"


def test_a_recording_of_a_recording_keeps_it_too(tmp_path: Path) -> None:
    first = _replayed(keep(_evidence(), lambda name: name), tmp_path)
    path = str(tmp_path / "second.tar.gz")
    assert record(open_bundle(first), path, 1).replays
    again = recall(open_bundle(path.encode()))
    assert isinstance(again, Gathered)
    assert [zombie.id for zombie in again.walk.zombies] == [7, 8, 9]
