# SPDX-License-Identifier: Apache-2.0
"""Every tier of the ledger against the maker's own count, on the running kernel. Only our own subtree is compared."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.command import IN_MACHINE
from tests.kernel.zombie_maker import Maker, wait_until

from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.lifecycle import Counts, EventTier, Lifecycle
from zombiescope.facts.zombies import Walk
from zombiescope.host.live import LiveHost
from zombiescope.kernel.ledgers import BpfLedger, Ledger, TraceLedger, pattern_of
from zombiescope.kernel.tracefs import open_tracefs
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.cgroup_lifecycle import open_ledger
from zombiescope.probes.readers.zombie_walk import read_zombie_walk

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
MANY = 900 if IN_MACHINE else 9000
BIRTHS_PER_SECOND = 3000
STREAMS = (EventTier.BPF, EventTier.TRACEFS)


@pytest.fixture
def maker() -> Iterator[Maker]:
    with Maker(f"ledger-{os.getpid()}-{time.monotonic_ns() % 1_000_000}") as made:
        yield made


def ledger_of(tier: EventTier) -> Ledger:
    hierarchy = read_memory_hierarchy(LiveHost())
    assert isinstance(hierarchy, Hierarchy)
    ledger = open_ledger(LiveHost(), hierarchy, (tier,))
    assert not isinstance(ledger, tuple), ledger
    assert ledger.tier is tier
    return ledger


def hierarchy_number() -> int:
    rows = Path("/proc/cgroups").read_text(encoding="ascii").splitlines()
    return next((int(row.split()[1]) for row in rows if row.startswith("memory")), 0)


class Followed:
    """Readings added up, for the flows below one subtree."""

    def __init__(self, ledger: Ledger, prefix: bytes) -> None:
        self.ledger, self.prefix = ledger, prefix + b"/"
        self.flows: dict[tuple[bytes, bytes], Counts] = {}
        self.last: Lifecycle | None = None

    def read(self) -> Counts:
        self.last = self.ledger.read()
        for path, counts in self.last.flows:
            if path.startswith(self.prefix):
                key = pattern_of(path)
                self.flows[key] = self.flows.get(key, Counts()).plus(counts)
        total = Counts()
        for counts in self.flows.values():
            total = total.plus(counts)
        return total


def churn(place: Path, names: list[str]) -> None:
    for name in names:
        (place / name).mkdir()
        (place / name).rmdir()


@pytest.mark.parametrize("tier", STREAMS)
def test_every_birth_death_and_release_is_counted_under_its_pattern(maker: Maker, tier: EventTier) -> None:
    names = [
        name
        for i in range(100)
        for name in (
            f"c{i}",
            f"docker-{secrets.token_hex(32)}.scope",
            f"app{i % 2}.service",
            f"run-u{i}.service",
            "web-a1b2c3",
            "esc\x1b[31m",
        )
    ]
    ledger = ledger_of(tier)
    try:
        followed = Followed(ledger, maker.prefix)
        churn(maker.top, names)
        assert wait_until(lambda: followed.read() == Counts(600, 600, 600)), followed.flows
    finally:
        ledger.close()
    leaves = {leaf: counts.births for (_, leaf), counts in followed.flows.items()}
    assert leaves == {
        b"c*": 100,
        b"docker-*.scope": 100,
        b"app0.service": 50,
        b"app1.service": 50,
        b"run-u*.service": 100,
        b"web-*": 100,
        b"esc\x1b[*m": 100,
    }
    assert followed.last is not None
    assert followed.last.lost == 0
    assert followed.last.zombie_times.quantile_seconds(0.5) is not None


@pytest.mark.parametrize("tier", STREAMS)
def test_a_zombie_is_a_death_without_a_release(maker: Maker, tier: EventTier) -> None:
    ledger = ledger_of(tier)
    try:
        followed = Followed(ledger, maker.prefix)
        maker.many(50)
        assert wait_until(lambda: followed.read().deaths == 50)
        time.sleep(1.2)
        assert followed.read() == Counts(50, 50, 0)
        for file in maker.shared.iterdir():
            file.unlink()
        assert wait_until(lambda: followed.read().balance == 0)
    finally:
        ledger.close()


def test_the_backlog_of_the_walk_and_the_flow_of_the_ledger_add_up(maker: Maker) -> None:
    """Zombies from before, plus deaths, less releases, is what a walk finds afterwards; the ledger knows who and when."""
    maker.many(30)

    def walked() -> dict[bytes, int]:
        walk = read_zombie_walk(LiveHost())
        assert isinstance(walk, Walk)
        start = maker.prefix + b"/"
        return {zombie.path: zombie.id for zombie in walk.zombies if zombie.path.startswith(start)}

    assert wait_until(lambda: len(walked()) == 30)
    backlog = walked()
    ledger = ledger_of(EventTier.BPF)
    try:
        followed = Followed(ledger, maker.prefix)
        begun = time.time()
        maker.many(20, first=1000)
        for number in range(10):
            (maker.shared / f"z{number}").unlink()
        (maker.shared / "z1000").unlink()
        assert wait_until(lambda: followed.read() == Counts(20, 20, 11)), followed.flows
        assert len(walked()) == len(backlog) + 20 - 11
        dead = {each.path: each for each in ledger.dead() if each.path.startswith(maker.prefix + b"/")}
    finally:
        ledger.close()
    assert set(dead) == {path for path in walked() if path not in backlog}
    for path, each in dead.items():
        assert each.id == walked()[path]
        assert begun - 1 <= (each.born_at or 0) <= each.died_at <= time.time() + 1


def test_what_a_starved_stream_lost_is_said_exactly(maker: Maker) -> None:
    """All watch the same hierarchy, and others make cgroups too: one that saw no more and one that saw no less bound it."""
    least, most = Counts(), Counts()
    outer = ledger_of(EventTier.BPF)
    ledger = TraceLedger(hierarchy_number(), LiveHost().wall_clock, buffer_kibibytes=8)
    inner = ledger_of(EventTier.BPF)
    try:
        for i in range(3000):
            churn(maker.top, [f"c{i}"])
        followed = Followed(inner, maker.prefix)
        assert wait_until(lambda: followed.read() == Counts(3000, 3000, 3000))
        assert followed.last is not None
        least = followed.last.total
        starved = ledger.read()
        most = outer.read().total
    finally:
        for each in (outer, ledger, inner):
            each.close()
    assert starved.lost is not None and starved.lost > 1000
    assert sum(least) <= sum(starved.total) + starved.lost <= sum(most)


def test_a_stream_that_is_taken_in_time_loses_nothing(maker: Maker) -> None:
    """Several times what its buffers hold, faster than the agent's readings come: so many in each second that it asks to wait."""
    ledger = TraceLedger(hierarchy_number(), time.time)
    try:
        followed, due = Followed(ledger, maker.prefix), 0
        for i in range(MANY):
            churn(maker.top, [f"c{i}"])
            if i >= due:
                due = i + round(ledger.catch_up() * BIRTHS_PER_SECOND)
        assert wait_until(lambda: followed.read() == Counts(MANY, MANY, MANY)), followed.flows
    finally:
        ledger.close()
    assert followed.last is not None
    assert followed.last.lost == 0


def booked(readings: list[Lifecycle]) -> Counts:
    found = Counts()
    for each in readings:
        for counts in (each.other, *(flow.counts for flow in each.flows)):
            found = found.plus(counts)
    return found


def test_a_full_map_of_the_ledger_is_said_exactly(maker: Maker) -> None:
    """With room for eight patterns and eight dead: every event is counted, under its pattern or as other; a death record that found
    no room is said to be lost."""
    host = LiveHost()
    small = {"flows_a": 8, "flows_b": 8, "dead": 8}
    ledger = BpfLedger(hierarchy_number(), host.wait, host.wall_clock, small)
    try:
        for n in range(40):
            churn(maker.top, [f"{chr(97 + n % 26)}{'y' * (1 + n // 26)}-part" for _ in range(5)])
        maker.many(30)
        read: list[Lifecycle] = []

        def is_all_booked() -> bool:
            """An event between two sides of one reading is in its total, and among the flows of the next."""
            read.append(ledger.read())
            total = read[-1].total
            return total.releases >= 200 and total.deaths >= 230 and booked(read) == total

        assert wait_until(is_all_booked), (booked(read), read[-1].total)
        kept = sum(1 for _ in ledger.dead())
    finally:
        ledger.close()
    assert any(each.other.births for each in read)
    assert max(len(each.flows) for each in read) <= 8
    assert kept <= 8
    lost = read[-1].lost
    assert lost is not None and lost >= 30 - kept, "each death without a record is counted"


def test_polling_sees_what_stays(maker: Maker) -> None:
    ledger = ledger_of(EventTier.POLLING)
    ledger.read()
    (maker.top / "stays").mkdir()
    first = {flow.path: flow.counts for flow in ledger.read().flows}
    (maker.top / "stays").rmdir()
    second = ledger.read()
    assert first[maker.prefix + b"/stays"] == Counts(1, 0, 0)
    assert {flow.path: flow.counts for flow in second.flows}[maker.prefix + b"/stays"] == Counts(0, 1, 0)
    assert {gap.fact for gap in second.gaps} == {"births", "lost", "releases"}
    assert second.lost is None, "nobody counts what lives between two looks"


def test_a_killed_watcher_leaves_nothing_that_the_next_does_not_remove() -> None:
    program = (
        "import sys, time; from zombiescope.kernel.ledgers import TraceLedger; ledger = TraceLedger(1, time.time); "
        "print(ledger._instance.name, flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    name = child.stdout.readline().strip()
    child.kill()
    child.wait()
    top = open_tracefs()
    instances = os.open("instances", os.O_RDONLY, dir_fd=top)
    try:
        assert name in os.listdir(instances)
        ledger = TraceLedger(1, time.time)
        assert name not in os.listdir(instances)
        own = ledger._instance.name
        ledger.close()
        assert own not in os.listdir(instances)
    finally:
        os.close(instances)
        os.close(top)
