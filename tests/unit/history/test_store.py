# SPDX-License-Identifier: Apache-2.0
"""The store keeps what it was given: over folds, restarts, damage, a clock that goes back, a folder that cannot be written."""

from __future__ import annotations

import errno
import math
import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.errors import ObservationError
from zombiescope.facts.history import Happening, Sample
from zombiescope.history.chunks import Chunks, pack, unpack
from zombiescope.history.log import decode, encode, parse_log
from zombiescope.history.reader import has_history, remember
from zombiescope.history.store import DATABASE, LOG, Store

VALUES = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(1 << 52), 1 << 52)
NAMES = st.text(min_size=1, max_size=20)


@given(st.lists(VALUES | st.none(), max_size=50))
def test_a_column_comes_back(values: list[float | None]) -> None:
    assert unpack(pack(values)) == values


@given(st.binary(max_size=60))
def test_a_damaged_column_is_a_value_error(garbage: bytes) -> None:
    try:
        unpack(garbage)
    except ValueError:
        return


@given(st.integers(1, 1 << 40), st.floats(0, 4e9), NAMES, st.dictionaries(NAMES, VALUES, max_size=5))
def test_a_sample_comes_back(number: int, at: float, boot: str, values: dict[str, float]) -> None:
    line = encode(Sample(number, at, boot, values))
    assert line.count(b"\n") == 1
    assert decode(line[:-1]) == Sample(number, round(at, 3), boot, values)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_log_without_records(garbage: bytes) -> None:
    records, damaged = parse_log(garbage)
    assert records == []
    assert damaged == garbage.count(b"\n")


def test_a_changed_byte_costs_one_record() -> None:
    lines = [encode(Happening(n, 1.0, "b", "agent-began", f"n{n}")) for n in range(1, 4)]
    content = b"".join(lines).replace(b"n2", b"n9")
    records, damaged = parse_log(content + lines[0][:20])
    assert ([record.number for record in records], damaged) == ([1, 3], 1)


def fill(store: Store, count: int, start: float = 1_000_000.0, step: float = 10.0, boot: str = "boot-1") -> None:
    for n in range(count):
        values = {"zombies": float(n), "live": 7.0} | ({"maker.unit:a.service": n / 2} if n % 3 else {})
        store.add_sample(start + n * step, boot, values)


def test_what_was_added_is_remembered_over_folds_and_restarts(tmp_path: Path) -> None:
    folder = str(tmp_path / "state")
    store = Store(folder)
    fill(store, 1000)
    store.add_happening(1_010_000.0, "boot-1", "agent-ended", "by SIGTERM")
    store.close()
    store = Store(folder)
    fill(store, 10, start=1_020_000.0, boot="boot-2")
    found = remember(os.fsencode(folder))
    store.close()
    assert [sample.number for sample in found.samples] == [*range(1, 1001), *range(1002, 1012)]
    assert found.samples[500].values == {"zombies": 500, "live": 7, "maker.unit:a.service": 250}
    assert "maker.unit:a.service" not in found.samples[3].values
    assert [sample.boot for sample in found.samples[-10:]] == ["boot-2"] * 10
    assert [each.what for each in found.happenings] == ["agent-ended"]
    assert found.gaps == ()
    assert (tmp_path / "state" / DATABASE).stat().st_size > 0
    only = remember(os.fsencode(folder), 1_005_000, 1_005_100, frozenset({"live"}))
    assert [dict(sample.values) for sample in only.samples] == [{"live": 7}] * 11


def test_a_clock_that_goes_back_loses_and_doubles_nothing(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for start in (1_000_000.0, 900_000.0, 1_000_000.0):
        fill(store, 400, start=start)
    found = remember(os.fsencode(tmp_path))
    store.close()
    assert [sample.number for sample in found.samples] == list(range(1, 1201))
    assert found.samples[400].at == 900_000.0


def test_a_damaged_log_is_put_aside_and_what_is_whole_is_kept(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    fill(store, 20)
    store.close()
    log = tmp_path / LOG
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0xFF
    log.write_bytes(bytes(content))
    store = Store(str(tmp_path))
    fill(store, 5, start=1_001_000.0)
    found = remember(os.fsencode(tmp_path))
    assert len(found.samples) in (23, 24)  # a byte that was the end of a line costs two
    assert "damaged-1" in store.notes[0]
    assert (tmp_path / f"{LOG}.damaged-1").read_bytes() == bytes(content)
    store.close()


@pytest.mark.parametrize("kept", [1, 8, 9, 30, -2])
def test_a_record_that_a_kill_cut_is_taken_back_and_is_no_damage(tmp_path: Path, kept: int) -> None:
    store = Store(str(tmp_path))
    for n in range(4):
        store.add_sample(1e6 + n, "boot", {"zombies": n})
    log = tmp_path / LOG
    whole = log.read_bytes()
    *first, last = whole.splitlines(keepends=True)
    log.write_bytes(b"".join(first) + last[:kept])
    store.close()
    again = Store(str(tmp_path))
    again.add_sample(1e6 + 10, "boot", {"zombies": 10})
    again.add_sample(1e6 + 4000, "boot", {"zombies": 11})
    assert [sample.values["zombies"] for sample in remember(os.fsencode(tmp_path)).samples] == [0, 1, 2, 10, 11]
    assert not list(tmp_path.glob("*.damaged*")), "nobody damaged it"


def test_a_database_that_is_none_is_put_aside(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    fill(store, 500)
    store.close()
    (tmp_path / DATABASE).write_bytes(b"not a database at all" * 100)
    found = remember(os.fsencode(tmp_path))
    assert found.gaps[0].reason.startswith(DATABASE)
    store = Store(str(tmp_path))
    assert store.trouble is None
    assert (tmp_path / f"{DATABASE}.damaged-1").read_bytes().startswith(b"not a database")
    fill(store, 5, start=2_000_000.0)
    assert len(remember(os.fsencode(tmp_path)).samples) >= 5
    store.close()


def test_of_a_database_with_a_damaged_page_the_other_hours_are_kept(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for n in range(3000):
        store.add_sample(1e6 + 60 * n, "b", {f"s{i}": math.sin(n * i) for i in range(8)})
    store.close()
    place = tmp_path / DATABASE
    content = bytearray(place.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"\xa5" * 4096
    place.write_bytes(bytes(content))
    store = Store(str(tmp_path))
    before = len(remember(os.fsencode(tmp_path)).samples)
    for n in range(3000, 3200):
        store.add_sample(1e6 + 60 * n, "b", {f"s{i}": math.sin(n * i) for i in range(8)})
    found = remember(os.fsencode(tmp_path))
    numbers = [sample.number for sample in found.samples]
    assert len(numbers) == len(set(numbers)) >= before + 200
    assert len(numbers) > 2500, "a page costs its hours, not the others"
    assert numbers[-200:] == list(range(3001, 3201))
    assert "damaged" in found.gaps[0].reason or "damaged" in store.notes[0]
    store.close()


def test_a_database_that_is_damaged_while_it_is_written_is_put_aside_and_the_hour_is_kept(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    fill(store, 500)
    (tmp_path / DATABASE).write_bytes(b"not a database at all" * 1000)
    (tmp_path / (DATABASE + "-wal")).write_bytes(b"x" * 40_000)
    in_log = len(remember(os.fsencode(tmp_path)).samples)
    fill(store, 500, start=1_010_000.0)
    assert store.trouble is None
    assert len(remember(os.fsencode(tmp_path)).samples) >= in_log + 500
    assert list(tmp_path.glob(f"{DATABASE}.damaged-*"))
    assert "kept as" in store.notes[0]
    store.close()


def test_an_hour_that_cannot_be_folded_stays_said_and_stays_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(tmp_path))
    fill(store, 300)

    def refused(*_: object) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    with monkeypatch.context() as patched:
        patched.setattr(Chunks, "fold", refused)
        fill(store, 400, start=1_003_000.0)
        assert store.trouble is not None
        assert "fold" in store.trouble.what
        assert len(remember(os.fsencode(tmp_path)).samples) == 700
    fill(store, 10, start=1_007_000.0)
    assert store.trouble is None, "tried again soon, not an hour later"
    assert [sample.number for sample in remember(os.fsencode(tmp_path)).samples] == list(range(1, 711))
    store.close()


def test_a_full_disk_is_said_and_what_waits_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path))
    fill(store, 3)
    write = os.write

    def half(descriptor: int, content: bytes) -> int:
        return write(descriptor, content[: len(content) // 2])

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    for refuse in (half, full):
        with monkeypatch.context() as patched:
            patched.setattr("zombiescope.history.log.os.write", refuse)
            fill(store, 2, start=1_000_100.0)
        assert store.trouble is not None
        assert "no space left" in store.trouble.why
    assert store.waiting == 4
    fill(store, 1, start=1_000_200.0)
    assert store.trouble is None
    assert [sample.number for sample in remember(os.fsencode(tmp_path)).samples] == list(range(1, 9))
    store.close()


def test_a_second_writer_is_refused_and_keeps_observing(tmp_path: Path) -> None:
    first, second = Store(str(tmp_path)), Store(str(tmp_path))
    assert second.trouble is not None
    assert "another agent" in second.trouble.why
    fill(first, 3)
    fill(second, 2)
    assert second.waiting == 2
    first.close()
    fill(second, 1, start=1_000_100.0)
    assert second.trouble is None
    assert [sample.number for sample in remember(os.fsencode(tmp_path)).samples] == list(range(1, 7))
    second.close()


def test_the_oldest_hours_are_forgotten_by_age_and_by_size(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "age"), days=1)
    fill(store, 3000, step=60.0)
    found = remember(os.fsencode(tmp_path / "age"))
    store.close()
    assert 24 * 60 <= len(found.samples) <= 26 * 60
    small = Store(str(tmp_path / "size"), most_bytes=60_000)
    for n in range(4000):
        small.add_sample(1e6 + 60 * n, "b", {f"s{i}": math.sin(n * i) for i in range(5)})
    chunks = Chunks(str(tmp_path / "size" / DATABASE), read_only=True)
    assert chunks.size() <= 60_000
    chunks.close()
    kept = remember(os.fsencode(tmp_path / "size")).samples
    assert kept[-1].number == 4000
    assert len(kept) < 4000
    small.close()


def test_no_history_is_an_error_with_a_hint(tmp_path: Path) -> None:
    assert not has_history(os.fsencode(tmp_path))
    with pytest.raises(ObservationError, match="no history"):
        remember(os.fsencode(tmp_path))
    with pytest.raises(ObservationError, match="no such folder"):
        remember(os.fsencode(tmp_path / "nowhere"))
