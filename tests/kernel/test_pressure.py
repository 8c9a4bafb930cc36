# SPDX-License-Identifier: Apache-2.0
"""A real quota that runs out and real reclaim at a real limit: both named, on one axis, and neither taken for the other."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from mmap import PAGESIZE
from pathlib import Path

import pytest
from tests.kernel.confined import answer_of_child
from tests.kernel.conftest import not_here
from tests.kernel.zombie_maker import Maker
from tests.scenarios.facts import case

from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.rules import cpu_throttling
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import PressureSeen
from zombiescope.host.live import LiveHost
from zombiescope.watching.reclaim import WholePressureWatch

pytestmark = pytest.mark.kernel
BYTES, CHUNK = 96 << 20, 1 << 20
LEAST_TIMES, MOST_SECONDS = 12, 120


@pytest.fixture
def quota() -> Iterator[Path]:
    """A cgroup that may use a tenth of a core."""
    v1, name = Path("/sys/fs/cgroup/cpu"), f"quota-{os.getpid()}-{secrets.token_hex(2)}"
    place = (v1 if v1.is_dir() else Path("/sys/fs/cgroup")) / name
    try:
        place.mkdir()
        if v1.is_dir():
            (place / "cpu.cfs_quota_us").write_text("10000")
            (place / "cpu.shares").write_text("200000")  # it must be able to use it up, whoever else is busy
        else:
            (place / "cpu.max").write_text("10000 100000")
            (place / "cpu.weight").write_text("10000")
    except OSError as error:
        with suppress(OSError):
            place.rmdir()
        not_here(f"no CPU quota can be set: {error}")
    try:
        yield place
    finally:
        place.rmdir()


def account(group: Path) -> dict[str, int]:
    rows = [line.split() for line in (group / "cpu.stat").read_text().splitlines()]
    return {row[0]: int(row[1]) for row in rows}


def seen_of(window: WholePressureWatch) -> PressureSeen:
    seen = window.seen()
    assert isinstance(seen, PressureSeen)
    return seen


def test_a_quota_that_runs_out_is_named(quota: Path) -> None:
    window = WholePressureWatch(LiveHost())

    def burn() -> int:
        """Until it ran out often enough, by the kernel's own account: on a busy machine that takes longer."""
        (quota / "cgroup.procs").write_text(str(os.getpid()))
        end = time.monotonic() + MOST_SECONDS
        while (told := account(quota))["nr_throttled"] < LEAST_TIMES or told["nr_throttled"] < 0.8 * told["nr_periods"]:
            assert time.monotonic() < end, told
            for _ in range(100_000):
                pass
        return 0

    answer_of_child(burn)
    before, seen, after = account(quota), seen_of(window), account(quota)
    assert not isinstance(seen.throttled, Gap)
    mine = next(group for group in seen.throttled if group.path == f"/{quota.name}".encode())
    assert before["nr_periods"] <= mine.periods <= after["nr_periods"]
    assert before["nr_throttled"] <= mine.throttled <= after["nr_throttled"]
    assert before["nr_throttled"] / after["nr_periods"] <= mine.share <= 1
    unit, name = (1e6, "throttled_usec") if "throttled_usec" in before else (1e9, "throttled_time")
    assert before[name] / unit - 1e-6 <= mine.seconds <= after[name] / unit + 1e-6
    finding = cpu_throttling.judge(case(pressure=seen._replace(throttled=(mine,))))
    assert finding.verdict is Verdict.PRESENT
    assert quota.name in finding.summary


def test_reclaim_at_a_limit_is_counted_as_such_and_throttles_nobody() -> None:
    with Maker(f"limit-{os.getpid()}-{secrets.token_hex(2)}") as maker:
        path = maker.disk / "read-me"
        with open(path, "wb") as file:
            file.writelines(bytes(CHUNK) for _ in range(BYTES // CHUNK))
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        place = maker.make(b"reader")
        is_v2 = (maker.top / "memory.max").exists()
        (maker.top / ("memory.max" if is_v2 else "memory.limit_in_bytes")).write_text(str(24 << 20))
        window = WholePressureWatch(LiveHost())

        def read() -> int:
            with open(place + b"/cgroup.procs", "w") as procs:
                procs.write(str(os.getpid()))
            return sum(len(part) for part in _parts(path))

        assert answer_of_child(read) == BYTES
        seen = seen_of(window)
    pages = (seen.mean("limit_pages") or 0.0) * sum(point.seconds for point in seen.points)
    direct = (seen.mean("direct_pages") or 0.0) * sum(point.seconds for point in seen.points)
    assert pages + direct >= 0.4 * BYTES / PAGESIZE, (
        "what did not fit had to be scanned; kernels before 5.8 call it direct"
    )
    assert not isinstance(seen.throttled, Gap)
    assert not [group for group in seen.throttled if maker.top.name.encode() in group.path]


def _parts(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while part := file.read(CHUNK):
            yield part
