# SPDX-License-Identifier: Apache-2.0
"""Every file of a state folder cut, emptied, overwritten or taken away, before the store opens and while it is open: it goes on,
says so, and what was written elsewhere is there. What a killed writer leaves is read without touching it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from zombiescope.facts.history import Sample
from zombiescope.history.chunks import Chunks, pack, unpack
from zombiescope.history.database import open_to_read
from zombiescope.history.reader import remember
from zombiescope.history.store import DATABASE, LOG, Store

HOURS, STEP = 6, 60.0
LOCK = "lock"


def fill(store: Store, count: int, start: float = 1_000_800.0) -> None:
    for n in range(count):
        store.add_sample(start + n * STEP, "boot", {f"s{i}": (n * 7919 * i) % 1009 / 7 for i in range(12)})


def numbers(folder: Path) -> list[int]:
    return [sample.number for sample in remember(os.fsencode(folder)).samples]


def empty(path: Path) -> None:
    os.truncate(path, 0)


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def scribble(path: Path) -> None:
    """Over its middle; a short file wholly."""
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.seek(size // 3)
        file.write(b"\xa5" * max(size // 3, 100))


def overwrite(path: Path) -> None:
    path.write_bytes(b"nothing that anybody wrote " * 500)


def remove(path: Path) -> None:
    path.unlink()


DAMAGES: tuple[Callable[[Path], None], ...] = (empty, halve, scribble, overwrite, remove)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [DATABASE, LOG, LOCK])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_damaged_file_is_said_and_costs_only_what_was_in_it(
    tmp_path: Path, name: str, damage: Callable[[Path], None], *, is_open: bool
) -> None:
    store = Store(str(tmp_path))
    fill(store, HOURS * 60 + 30)
    if not is_open:
        store.close()
    whole = numbers(tmp_path)
    in_log = (tmp_path / LOG).read_bytes().count(b"\n")
    damage(tmp_path / name)
    if not is_open:
        store = Store(str(tmp_path))
    first = store._next
    fill(store, 120, start=2_000_000.0)
    assert store.trouble is None
    store.close()
    found = numbers(tmp_path)
    fresh = [number for number in found if number >= first]
    assert fresh == list(range(first, first + 120)), "what came after is all there"
    assert found == sorted(set(found)), "nothing is there twice"
    if name == LOCK or (name == LOG and damage is remove and is_open):
        assert found[: len(whole)] == whole
    elif name == DATABASE:
        assert set(whole[-in_log:]) <= set(found) or first <= whole[-1], "the hour in the log stands"
        assert store.notes
    else:
        assert set(whole[:-in_log]) <= set(found), "the hours in the database stand"
        assert store.notes or (not is_open and damage in (empty, halve, remove)), (
            "a log that just ends earlier is whole"
        )


def test_a_folder_that_was_taken_away_is_made_anew_with_the_hour_at_hand(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    store = Store(str(folder))
    fill(store, 90)
    in_log = (folder / LOG).read_bytes().count(b"\n")
    shutil.rmtree(folder)
    fill(store, 10, start=1_006_200.0)
    assert "taken away" in store.notes[0]
    assert len(numbers(folder)) == in_log + 10
    other = Store(str(folder))
    assert other.trouble is not None
    assert "another agent" in other.trouble.why
    other.close()
    store.close()


def in_a_child(work: Callable[[], None]) -> None:
    """That ends as if killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_a_killed_writer_left_half_done_is_read_without_it_and_untouched(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    fill(store, HOURS * 60)
    store.close()
    whole = numbers(tmp_path)

    def half() -> None:
        database = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
        database.execute("PRAGMA cache_size = 2")
        database.execute("BEGIN")
        database.execute("UPDATE chunk SET data = zeroblob(600)")
        database.execute("DELETE FROM stretch WHERE first < 100")
        os._exit(0)

    in_a_child(half)
    assert (tmp_path / f"{DATABASE}-journal").stat().st_size > 512
    left = bytes_of(tmp_path)
    found = remember(os.fsencode(tmp_path))
    assert [sample.number for sample in found.samples] == whole
    assert found.gaps == ()
    assert bytes_of(tmp_path) == left
    store = Store(str(tmp_path))
    assert store.notes == []
    store.close()
    assert numbers(tmp_path) == whole
    assert not (tmp_path / f"{DATABASE}-journal").exists()


def test_the_write_ahead_log_of_an_earlier_build_is_taken_in_and_its_shared_memory_never_touched(
    tmp_path: Path,
) -> None:
    store = Store(str(tmp_path))
    fill(store, HOURS * 60)
    store.close()
    whole = numbers(tmp_path)

    def write() -> None:
        database = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("INSERT INTO happening VALUES (1, 1000000, 'boot', 'agent-began', 'in the log')")
        os._exit(0)

    in_a_child(write)
    os.truncate(tmp_path / f"{DATABASE}-shm", 0)  # whoever maps it dies by SIGBUS
    left = bytes_of(tmp_path)
    found = remember(os.fsencode(tmp_path))
    assert [each.detail for each in found.happenings] == ["in the log"]
    assert [sample.number for sample in found.samples] == whole
    assert bytes_of(tmp_path) == left
    in_a_child(lambda: fill(Store(str(tmp_path)), 200, start=1_100_000.0))
    found = remember(os.fsencode(tmp_path))
    assert [each.detail for each in found.happenings] == ["in the log"]
    assert len(found.samples) == len(whole) + 200
    assert not (tmp_path / f"{DATABASE}-wal").exists()
    with open_to_read(str(tmp_path / DATABASE)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_reader_that_holds_on_makes_the_fold_wait_and_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zombiescope.history.database._WRITER_SECONDS_TO_WAIT", 0.01)
    store = Store(str(tmp_path))
    fill(store, 30)
    reader = open_to_read(str(tmp_path / DATABASE))
    fill(store, 65, start=1_010_000.0)
    assert store.trouble is not None
    assert "locked" in store.trouble.why
    reader.close()
    fill(store, 10, start=1_014_000.0)
    assert store.trouble is None
    store.close()
    assert numbers(tmp_path) == list(range(1, 106))
    assert (tmp_path / LOG).read_bytes().count(b"\n") < 20


def test_a_column_that_unpacks_to_very_much_is_damage() -> None:
    with pytest.raises(ValueError, match="more than an hour"):
        unpack(b"i" + zlib.compress(bytes(64 << 20)))


def test_columns_of_several_lengths_are_damage(tmp_path: Path) -> None:
    chunks = Chunks(str(tmp_path / DATABASE))
    chunks.fold([Sample(n, 3600.0 + n, "boot", {"a": n}) for n in range(1, 9)], [], 8)
    chunks.close()
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute("UPDATE chunk SET data = ?", (pack([1, 2]),))
    database.close()
    found = remember(os.fsencode(tmp_path))
    assert not found.samples
    assert "damaged" in found.gaps[0].reason


def test_a_view_in_place_of_a_table_is_not_asked(tmp_path: Path) -> None:
    Chunks(str(tmp_path / DATABASE)).close()
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute("DROP TABLE series")
        endless = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, 'x' AS name FROM n"
        database.execute(f"CREATE VIEW series AS {endless}")
    database.close()
    assert "missing" in remember(os.fsencode(tmp_path)).gaps[0].reason


@pytest.mark.parametrize("body", [b"[" * 100_000, b'["s",1,1,"b",{"a":"x"}]', b'["s",1e400,1,"b",{}]'])
def test_a_line_with_a_right_checksum_and_wrong_values_is_damage(tmp_path: Path, body: bytes) -> None:
    (tmp_path / LOG).write_bytes(b"%08x %s\n" % (zlib.crc32(body), body))
    assert "1 lines are damaged" in remember(os.fsencode(tmp_path)).gaps[0].reason
