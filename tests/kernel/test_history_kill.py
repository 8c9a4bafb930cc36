# SPDX-License-Identifier: Apache-2.0
"""kill -9 at 200 random moments under full write, and a file system that is really full."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from zombiescope.history.reader import remember
from zombiescope.history.store import Store

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
ROUNDS = 200


def write_until_killed(folder: str, start: float, report: int) -> None:
    """Six samples an hour, so that every few writes the log is folded."""
    store = Store(folder, days=1e6)
    at = start
    while True:
        at += 600
        store.add_sample(at, "boot", {f"s{i}": at * i for i in range(30)})
        os.write(report, b"%d\n" % (store._next - 1))


def test_200_kills_lose_at_most_the_sample_being_written_and_double_none(tmp_path: Path) -> None:
    chance, acknowledged, numbers = random.Random(7), 0, list[int]()
    for round_ in range(ROUNDS):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                write_until_killed(str(tmp_path), 1e9 + round_ * 1e6, writing)
            finally:
                os._exit(1)
        os.close(writing)
        with os.fdopen(reading, "rb") as told:
            first = told.readline()
            time.sleep(chance.uniform(0, 0.03))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            lines = [first, *told.readlines()]
        acknowledged = max(acknowledged, *(int(line) for line in lines if line.endswith(b"\n")))
        if round_ % 20 == 0 or round_ == ROUNDS - 1:
            numbers = [sample.number for sample in remember(os.fsencode(tmp_path)).samples]
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(numbers) >= acknowledged
    print(f"{ROUNDS} kills, {acknowledged:,} samples acknowledged, {len(numbers):,} there")
    assert not list(tmp_path.glob("*.damaged*"))


def test_a_full_file_system_stops_no_one_and_loses_nothing_written(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], check=True)
    try:
        store = Store(str(place / "state"))
        for n in range(20):
            store.add_sample(1e6 + n, "b", {"zombies": n})
        with suppress_full(), open(place / "filler", "wb") as filler:
            filler.write(b"x" * (1 << 20))
        before = [sample.number for sample in remember(os.fsencode(place / "state")).samples]
        for n in range(400):
            store.add_sample(1e6 + 100 + n * 20, "b", {"zombies": n, "filling": n / 7})
        assert store.trouble is not None
        assert "space" in store.trouble.why or "full" in store.trouble.why
        during = [sample.number for sample in remember(os.fsencode(place / "state")).samples]
        assert during[: len(before)] == before
        (place / "filler").unlink()
        store.add_sample(2e6, "b", {"zombies": 1})
        store.close()
        assert store.trouble is None
        assert [sample.number for sample in remember(os.fsencode(place / "state")).samples] == list(range(1, 422))
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


class suppress_full:  # noqa: N801 (reads as a verb)
    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, OSError)
