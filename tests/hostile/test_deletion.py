# SPDX-License-Identifier: Apache-2.0
"""`apply` deletes or rewrites what was consented to and nothing else, whatever is renamed, linked, opened, mapped or full then.

An `apply` takes seconds, so attacks that do not disturb each other share one: each has a folder and an assertion of its own.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.hostile.graves import graveyard, wait_for
from tests.hostile.neighbour import NEIGHBOUR, Neighbour
from tests.hostile.raids import (
    COUNT,
    Started,
    answered,
    contents,
    fill,
    no_rewriting,
    start,
    steps_of,
    swap_for_ever,
    words,
)

SHM_DEST = 0o1000
KEPT = 12
_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p


class Raid(NamedTuple):
    memory: Path
    """The neighbour's folder in memory."""
    roots: Path
    """A folder of root's, with files of the names that were consented to."""
    code: int
    steps: dict[str, dict[str, Any]]
    before: dict[str, bytes]
    """What had to stay, by path."""
    said: str
    segments: tuple[int, ...] = ()

    def note(self, folder: str) -> str:
        return str(self.steps[f"delete:{self.memory / folder}"]["note"])


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hostile-", dir="/dev/shm"))
    os.chown(folder, NEIGHBOUR, NEIGHBOUR)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


# While apply works: exchanged as fast as the neighbour can.


@pytest.fixture(scope="module")
def racing(memory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    place = tmp_path_factory.mktemp("race")
    folder, link, files, others = (memory / name for name in ("folder", "link", "files", "others"))
    fill(place / "of root")
    with graveyard() as graves:
        graves.bury(lambda: fill(folder), NEIGHBOUR)
        graves.bury(lambda: fill(files), NEIGHBOUR)
        fill(others)
        for path in (others, *others.iterdir()):
            os.chown(path, NEIGHBOUR, NEIGHBOUR)
        os.symlink(place / "of root", link)
        os.chown(link, NEIGHBOUR, NEIGHBOUR, follow_symlinks=False)
        fresh = {str(path.stat().st_ino): path.read_bytes() for path in others.iterdir()}
        pairs = [each for n in range(COUNT) for each in ((folder, link), (files / f"f{n}", others / f"f{n}"))]
        pairs.append((folder, link))  # an odd number, so that it rests now one way round and now the other
        consents = [word for each in (folder, link, files, others) for word in ("--consent", f"delete:{each}")]
        begun = start(place, [*words(graves, place / "state"), *consents], fresh)
        begun.neighbour.start(lambda: swap_for_ever(pairs))
        try:
            yield begun
        finally:
            begun.process.kill()
            begun.ended()


@pytest.fixture(scope="module")
def race(racing: Started, ambush: Raid, memory: Path) -> Raid:
    del ambush  # meanwhile
    code, out, said = racing.ended()
    return Raid(memory, racing.place / "of root", code, steps_of(out), racing.before, said)


@pytest.mark.attack("have root delete its own files, with the consented folder swapped for a link again and again")
def test_a_folder_swapped_for_a_link(race: Raid) -> None:
    assert race.code == 0, race.said
    assert len(list(race.roots.iterdir())) == COUNT


@pytest.mark.attack("have fresh files deleted under the consented names, exchanged with them again and again")
def test_files_swapped_for_others(race: Raid) -> None:
    """A program that renames a new version over the old one is the honest twin of this."""
    places = [race.memory / "files", race.memory / "others"]
    left = {str(path.stat().st_ino): path.read_bytes() for place in places for path in place.iterdir()}
    assert {inode: left.get(inode) for inode in race.before} == race.before
    assert list(race.memory.rglob(".zombiescope*")) == []


# Between the plan and the deletion: where a person at a terminal is asked for consent.


def make_segment() -> None:
    number = _libc.shmget(0, 8192, 0o1666)
    ctypes.memset(_libc.shmat(number, None, 0), 1, 8192)


def segments_of_neighbour() -> dict[int, int]:
    """By id, with the number attached; without those that go when the last one lets go of them."""
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return {int(row[1]): int(row[6]) for row in rows if int(row[7]) == NEIGHBOUR and not int(row[2], 8) & SHM_DEST}


class Moment:
    """What the neighbour does between the plan and the deletion."""

    def __init__(self, neighbour: Neighbour, memory: Path, roots: Path, segment: int) -> None:
        self.neighbour, self.memory, self.roots, self.segment = neighbour, memory, roots, segment

    def attack(self) -> None:
        ready = self.memory / "ready"
        self.neighbour.start(lambda: self._use(ready))
        wait_for(ready.exists)
        assert self.neighbour.do(self._swap) == 0

    def _use(self, ready: Path) -> None:
        late = self.memory / "late"
        opened = os.open(late / "f0", os.O_RDONLY)
        with open(late / "f1", "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        _libc.shmat(self.segment, None, 0)
        ready.touch()
        signal.pause()
        del opened, mapped

    def _swap(self) -> None:
        swapped = self.memory / "swapped"
        swapped.rename(self.memory / "moved away")
        swapped.symlink_to(self.roots)
        for number in range(4):
            (self.memory / "replaced" / "fresh").write_bytes(b"fresh")
            (self.memory / "replaced" / "fresh").rename(self.memory / "replaced" / f"f{number}")


@pytest.fixture(scope="module")
def ambush(racing: Started, filling: Started, memory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raid]:
    del racing, filling  # at work meanwhile
    place = tmp_path_factory.mktemp("ambush")
    neighbour = Neighbour(place / "neighbour")
    roots, early, ready = place / "of root", memory / "early", memory / "early is ready"
    fill(roots, 4)
    known = set(segments_of_neighbour())
    with graveyard() as graves:
        for name in ("swapped", "replaced", "late", "early"):
            graves.bury(lambda name=name: fill(memory / name, 4), NEIGHBOUR)  # type: ignore[misc]
        graves.bury(lambda: fill(memory / "roots", 4))
        os.chown(memory / "roots", NEIGHBOUR, NEIGHBOUR)
        for _ in range(3):
            graves.bury(make_segment, NEIGHBOUR)
        segments = tuple(sorted(set(segments_of_neighbour()) - known))

        def use_early() -> None:
            opened = os.open(early / "f0", os.O_RDONLY)
            with open(early / "f1", "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            _libc.shmat(segments[1], None, 0)
            ready.touch()
            signal.pause()
            del opened, mapped

        neighbour.start(use_early)
        wait_for(ready.exists)
        before = contents(roots)
        moment = Moment(neighbour, memory, roots, segments[0])
        try:
            code, out, said = answered(words(graves, place / "state"), place / "state", moment.attack, no_rewriting)
            yield Raid(memory, roots, code, steps_of(out), before, said, segments)
        finally:
            neighbour.end_all()
            for segment in segments:
                _libc.shmctl(segment, 0, None)


@pytest.mark.attack("have root delete its own files, with the consented folder a link by the time of consent")
def test_a_folder_that_is_a_link_by_now(ambush: Raid) -> None:
    assert ambush.code == 0, ambush.said
    assert contents(ambush.roots) == ambush.before
    assert "4 swapped is a link by now" in ambush.note("swapped")
    assert len(list((ambush.memory / "moved away").iterdir())) == 4


@pytest.mark.attack("have files deleted that took the place of those consented to")
def test_files_that_are_others_by_now(ambush: Raid) -> None:
    assert set(contents(ambush.memory / "replaced").values()) == {b"fresh"}
    assert "4 of 4 left alone" in ambush.note("replaced")


@pytest.mark.attack("have root delete files of root's that lie in the neighbour's folder")
def test_files_of_root_in_a_folder_of_a_stranger(ambush: Raid) -> None:
    assert len(list((ambush.memory / "roots").iterdir())) == 4
    assert f"belongs to uid 0 and lies in a folder of uid {NEIGHBOUR}" in ambush.note("roots")


@pytest.mark.attack("lose what a live program has open or mapped when the plan is made")
def test_files_in_use(ambush: Raid) -> None:
    listed = [Path(path).name for path in ambush.steps[f"delete:{ambush.memory / 'early'}"]["change"]["files"]]
    assert listed == ["f2", "f3"]
    assert sorted(path.name for path in (ambush.memory / "early").iterdir()) == ["f0", "f1"]
    assert ambush.steps["files-in-use"]["status"] == "for-people"
    assert "2 files that live programs have open or mapped: pid " in ambush.steps["files-in-use"]["title"]


@pytest.mark.attack("lose what a live program has opened or mapped between the plan and the deletion")
def test_files_in_use_by_now(ambush: Raid) -> None:
    assert sorted(path.name for path in (ambush.memory / "late").iterdir()) == ["f0", "f1"]
    assert "2 of 4 left alone: 2 in use by pid " in ambush.note("late")


@pytest.mark.attack("lose shared memory that a live program has attached, before or after the plan")
def test_segments_in_use(ambush: Raid) -> None:
    late, early, unused = ambush.segments
    left = segments_of_neighbour()
    assert (left.get(late), left.get(early), left.get(unused)) == (1, 1, None)
    assert "1 of 2 left alone" in ambush.steps["remove-segments"]["note"]
    assert ambush.steps["segments-in-use"]["status"] == "for-people"


@pytest.fixture(scope="module")
def filling(memory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    place = tmp_path_factory.mktemp("full")
    theirs, state = memory / "large", place / "state"
    state.mkdir()
    cut = f'find {state} -size -118 -path "*/kept/*"'  # 60,000 bytes are 118 blocks
    small = f'mount -t tmpfs -o size=256k full {state} && "$@"; code=$?; {cut}; exit $code'
    with graveyard() as graves:
        graves.bury(lambda: fill(theirs, 10, 60_000), NEIGHBOUR)
        command = [*words(graves, state), "--consent", f"delete:{theirs}"]
        begun = start(place, command, contents(theirs), ("unshare", "--mount", "sh", "-c", small, "sh"))
        try:
            yield begun
        finally:
            begun.process.kill()
            begun.ended()


@pytest.mark.attack("have deleted files lost for good, with a state folder that is full")
def test_copies_on_a_full_disk(filling: Started, ambush: Raid) -> None:
    code, out, said = filling.ended()
    assert code == 4, said
    assert "no space left on device; it stays where it is" in said
    assert out == "", "every copy that was kept is whole"
    assert contents(ambush.memory / "large") == filling.before


# Rewriting in place: nothing is lost or given away.


class Outcome(NamedTuple):
    memory: Path
    roots: Path
    codes: tuple[int, int]
    steps: dict[str, dict[str, Any]]
    roots_before: dict[str, bytes]
    swapped_before: list[bytes]
    """The contents of two folders whose files were exchanged all the time."""
    late_before: dict[str, bytes]
    said: str


@pytest.fixture(scope="module")
def raid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """Two at once: one beside a neighbour who swaps all the time, one whose files change while a person is asked."""
    place = tmp_path_factory.mktemp("rewriting")
    memory, roots = Path(tempfile.mkdtemp(prefix="hostile-", dir="/dev/shm")), place / "of root"
    os.chown(memory, NEIGHBOUR, NEIGHBOUR)
    folder, link, files, others, late, turned = (
        memory / name for name in ("folder", "link", "files", "others", "late", "turned")
    )
    fill(roots, KEPT)
    try:
        with graveyard() as racing, graveyard() as asked:
            for each in (folder, files):
                racing.bury(lambda each=each: fill(each, KEPT), NEIGHBOUR)  # type: ignore[misc]
            for each in (late, turned):
                asked.bury(lambda each=each: fill(each, 4), NEIGHBOUR)  # type: ignore[misc]
            fill(others, KEPT)
            for path in (others, *others.iterdir()):
                os.chown(path, NEIGHBOUR, NEIGHBOUR)
            os.symlink(roots, link)
            os.chown(link, NEIGHBOUR, NEIGHBOUR, follow_symlinks=False)
            swapped, of_root, of_late = contents(files, others), contents(roots), contents(late)
            pairs = [each for n in range(KEPT) for each in ((folder, link), (files / f"f{n}", others / f"f{n}"))]
            consents = [word for each in (folder, link, files, others) for word in ("--consent", f"rewrite:{each}")]
            begun = start(place, [*words(racing, place / "state"), *consents], {})
            begun.neighbour.start(lambda: swap_for_ever([*pairs, (folder, link)]))
            neighbour = Neighbour(place / "other neighbour")
            try:
                turn = Turn(neighbour, memory, roots)
                code, out, said = answered(words(asked, place / "asked"), place / "asked", turn.attack)
                first, _, complaint = begun.ended()
                yield Outcome(
                    memory, roots, (first, code), steps_of(out), of_root, sorted(swapped.values()), of_late, said + complaint
                )  # fmt: skip
            finally:
                neighbour.end_all()
                begun.process.kill()
                begun.ended()
    finally:
        shutil.rmtree(memory)


class Turn:
    """What the neighbour does between the plan and the rewriting."""

    def __init__(self, neighbour: Neighbour, memory: Path, roots: Path) -> None:
        self.neighbour, self.memory, self.roots = neighbour, memory, roots

    def attack(self) -> None:
        self.neighbour.start(self._use)
        wait_for((self.memory / "ready").exists)
        assert self.neighbour.do(self._turn) == 0

    def _use(self) -> None:
        opened = os.open(self.memory / "late/f0", os.O_RDWR)
        (self.memory / "ready").touch()
        signal.pause()
        del opened

    def _turn(self) -> None:
        (self.memory / "turned").rename(self.memory / "moved away")
        (self.memory / "turned").symlink_to(self.roots)


@pytest.mark.attack("have root rewrite its own files, with the consented folder swapped for a link again and again")
def test_files_of_root_stay(raid: Outcome) -> None:
    assert raid.codes == (0, 0), raid.said
    assert contents(raid.roots) == raid.roots_before
    assert all(path.stat().st_uid == 0 for path in raid.roots.iterdir())


@pytest.mark.attack("have files lost or mixed up that were exchanged with others while they were rewritten")
def test_every_content_is_there_once(raid: Outcome) -> None:
    left = contents(raid.memory / "files", raid.memory / "others")
    assert sorted(left.values()) == raid.swapped_before
    assert all(Path(path).stat().st_uid == NEIGHBOUR for path in left), "nobody got a file of another owner"
    assert list(raid.memory.rglob(".zombiescope*")) == []


@pytest.mark.attack("have what a live program opened after the plan replaced below its feet")
def test_a_file_opened_meanwhile_stays_the_very_one(raid: Outcome) -> None:
    step = raid.steps[f"rewrite:{raid.memory / 'late'}"]
    assert "1 of 4 left alone: 1 in use by pid " in step["note"]
    assert contents(raid.memory / "late") == raid.late_before
    assert raid.steps[f"delete:{raid.memory / 'late'}"]["status"] == "skipped"


@pytest.mark.attack("have root write through a folder that is a link by the time of consent")
def test_a_folder_to_rewrite_in_that_is_a_link_by_now(raid: Outcome) -> None:
    assert "is a link by now" in raid.steps[f"rewrite:{raid.memory / 'turned'}"]["note"]
    assert len(list((raid.memory / "moved away").iterdir())) == 4
