# SPDX-License-Identifier: Apache-2.0
"""The walk under hostile conditions: refused, confined, killed, and with cgroups coming and going under its feet."""

from __future__ import annotations

import errno
import mmap
import os
import re
import signal
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.command import IN_MACHINE
from tests.kernel.confined import CAP_BPF, CAP_PERFMON, answer_of_child, keep_only, refuse_bpf
from tests.kernel.exact_tiers import HAS_BPF, PAGES_PIN, told_if
from tests.kernel.zombie_maker import Maker, drain, wait_until

from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import Tier, Walk
from zombiescope.host.live import LiveHost
from zombiescope.kernel import bpf_walk
from zombiescope.kernel.bpf_object import BpfRefusedError, Command, call
from zombiescope.kernel.bpf_walk import COUNT_ONLY, walk_memcgs
from zombiescope.kernel.raw import CSS_DYING, RawWalk
from zombiescope.probes.readers.zombie_walk import read_zombie_walk

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
CHURNERS, WALKS = 2, 25
STOP = CHURNERS
"""The byte behind those in which they count."""


@pytest.fixture
def maker() -> Iterator[Maker]:
    with Maker(f"survive-{os.getpid()}-{time.monotonic_ns() % 1_000_000}") as made:
        yield made


def walked() -> Walk:
    found = read_zombie_walk(LiveHost())
    assert isinstance(found, Walk), found
    return found


def names_of(walk: Walk, maker: Maker) -> list[bytes]:
    start = maker.prefix + b"/"
    return [zombie.path.removeprefix(start) for zombie in walk.zombies if zombie.path.startswith(start)]


def css_of(maker: Maker) -> int:
    name = os.fsencode(maker.top.name)
    return next(memcg.css for memcg in walk_memcgs(1, time.time, COUNT_ONLY).memcgs if memcg.name == name)


def dead_names(raw: RawWalk, parent: int) -> list[bytes]:
    """Of one maker alone: others number theirs alike."""
    return [memcg.name for memcg in raw.memcgs if memcg.flags & CSS_DYING and memcg.parent == parent]


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EACCES])
@told_if(HAS_BPF)
def test_a_refused_system_call_is_named(number: int) -> None:
    def work() -> list[str]:
        refuse_bpf(number)
        try:
            walk_memcgs(1, time.time)
        except BpfRefusedError as error:
            return [error.why, error.hint]
        return []

    why, hint = answer_of_child(work)
    assert errno.errorcode[number] in why and "bpf(" in why
    assert hint


def test_a_refused_walk_is_a_gap_or_a_lower_tier_that_says_why() -> None:
    def work() -> dict[str, Any]:
        refuse_bpf(errno.EPERM)
        found = read_zombie_walk(LiveHost())
        if isinstance(found, Gap):
            return {"reason": found.reason, "hint": found.hint}
        return {"tier": found.tier, "reasons": [gap.reason for gap in found.gaps]}

    answer = answer_of_child(work)
    if "tier" in answer:
        assert answer["tier"] == Tier.KCORE
        assert any("EPERM" in reason for reason in answer["reasons"])
    else:
        assert "EPERM" in answer["reason"] and answer["hint"]


@told_if(HAS_BPF and PAGES_PIN)
def test_two_capabilities_are_enough_for_an_ordinary_user(maker: Maker) -> None:
    maker.many(20)
    assert wait_until(lambda: len(names_of(walked(), maker)) == 20)
    drain()

    def work() -> list[str]:
        keep_only(CAP_BPF, CAP_PERFMON)
        found = read_zombie_walk(LiveHost())
        assert isinstance(found, Walk)
        files = [pin.path_in_fs for zombie in found.zombies for pin in zombie.pins if zombie.parent == maker.prefix]
        return [found.tier, *sorted((file or b"").decode() for file in files)]

    tier, *files = answer_of_child(work)
    assert tier == Tier.BPF
    assert sorted(file.rpartition("/")[2] for file in files) == sorted(f"z{number}" for number in range(20))


@pytest.mark.parametrize("capabilities", [(), (CAP_BPF,), (CAP_PERFMON,)])
@told_if(HAS_BPF)
def test_fewer_capabilities_give_a_gap(capabilities: tuple[int, ...]) -> None:
    def work() -> list[str]:
        keep_only(*capabilities)
        found = read_zombie_walk(LiveHost())
        return [found.reason, found.hint] if isinstance(found, Gap) else []

    reason, hint = answer_of_child(work)
    assert "bpf(" in reason and hint


@told_if(HAS_BPF)
def test_nothing_is_left_in_the_kernel_after_a_kill() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            walker = bpf_walk.Walker(1)
            os.write(writing, b"%d" % walker.object.programs["walk_memcg"])
            signal.pause()
        finally:
            os._exit(1)
    descriptor = os.read(reading, 20).decode()
    match = re.search(r"prog_id:\s*(\d+)", Path(f"/proc/{child}/fdinfo/{descriptor}").read_text())
    assert match
    program = int(match[1])
    assert is_loaded(program)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert wait_until(lambda: not is_loaded(program))


def is_loaded(program: int) -> bool:
    attributes = bytearray(16)
    struct.pack_into("<I", attributes, 0, program)
    try:
        os.close(call(Command.PROG_GET_FD_BY_ID, attributes))
    except BpfRefusedError as error:
        assert error.number == errno.ENOENT
        return False
    return True


def test_a_walk_closes_what_it_opened() -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    walked()
    assert descriptors() == before


@told_if(PAGES_PIN and not IN_MACHINE)
def test_births_and_releases_during_walks(maker: Maker) -> None:
    """Those that stay are seen exactly once in every walk, whatever comes and goes around them."""
    with Maker(maker.top.name + "-churn") as churning:
        maker.many(300)
        told = mmap.mmap(-1, CHURNERS + 1)
        children = [churn(churning, number, told) for number in range(CHURNERS)]
        try:
            expected = sorted(b"z%d" % number for number in range(300))
            assert wait_until(lambda: sorted(names_of(walked(), maker)) == expected)
            for _ in range(WALKS):
                before = bytes(told)
                found = walked()
                assert sorted(names_of(found, maker)) == expected
                assert not [gap for gap in found.gaps if gap.fact == "zombies"], found.gaps
                assert wait_until(lambda before=before: bytes(told) != before), "nothing comes and goes"  # type: ignore[misc]
        finally:
            told[STOP] = 1
            for child in children:
                os.waitpid(child, 0)


def churn(maker: Maker, number: int, told: mmap.mmap) -> int:
    """Counts its rounds where everybody sees them, until it is told to stop."""
    child = os.fork()
    if child == 0:
        try:
            first = number * 1_000_000
            while not told[STOP]:
                maker.many(20, first)
                for name in range(first, first + 20):
                    (maker.shared / f"z{name}").unlink()
                first += 20
                told[number] = (told[number] + 1) % 256
        finally:
            os._exit(0)
    return child


@pytest.mark.parametrize("count", [1, 3, 7])
@told_if(HAS_BPF and PAGES_PIN)
def test_a_place_released_between_two_chunks_is_found_again(
    maker: Maker, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Each time a chunk ends at one of ours, that one and those before it are released before the next chunk begins."""
    monkeypatch.setattr(bpf_walk, "_CHUNK_RECORDS", 7)
    maker.many(100)
    ours = {b"z%d" % number for number in range(100)}
    assert wait_until(lambda: len(ours.intersection(names_of(walked(), maker))) == 100)
    released: set[bytes] = set()
    top = css_of(maker)

    class Releasing(bpf_walk.Walker):
        def run(self, program: str, *arguments: Any) -> Any:
            answer = super().run(program, *arguments)
            last = chunk_names(self.copy(answer), top)[-count:]
            if len(released) < 40:
                release(last)
            return answer

    def release(names: list[bytes]) -> None:
        for name in names:
            os.unlink(os.fsencode(maker.shared) + b"/" + name)
        gone = set(names)
        assert wait_until(lambda: not gone.intersection(dead_names(walk_memcgs(1, time.time, COUNT_ONLY), top)))
        released.update(gone)

    raw = walk_memcgs(1, time.time, COUNT_ONLY, Releasing)
    assert released and not raw.notes
    names = dead_names(raw, top)
    assert sorted(names) == sorted(ours), "every one was a zombie when the walk passed it"


def chunk_names(chunk: Any, parent: int) -> list[bytes]:
    places = [
        struct.unpack_from("<II", chunk.records, begin + 144)
        for begin in range(0, len(chunk.records), 160)
        if struct.unpack_from("<Q", chunk.records, begin + 8) == (parent,)
    ]
    return [chunk.arena[place : place + size - 1] for place, size in places]


@told_if(not IN_MACHINE)
def test_sixty_thousand(maker: Maker) -> None:
    count = 60_000
    maker.many(count)
    assert wait_until(lambda: len(names_of(walked(), maker)) == count)
    drain()

    def files_named() -> int:
        pinned = (zombie for zombie in walked().zombies if zombie.parent == maker.prefix and zombie.pins)
        return len({zombie.pins[0].path for zombie in pinned})

    assert wait_until(lambda: files_named() == count), files_named()
    found = walked()
    assert found.kernel_nanoseconds is not None and found.longest_run_nanoseconds is not None
    assert found.chunks >= count // bpf_walk.RECORDS
    assert found.longest_run_nanoseconds < found.kernel_nanoseconds / 2, "no run holds a core for all of it"


@told_if(HAS_BPF)
def test_a_tree_as_deep_as_paths_go(maker: Maker) -> None:
    """Cgroups nested far beyond any fixed bound of a loop in the kernel."""
    depth, here = 300, os.open(maker.top, os.O_RDONLY)
    places = []
    try:
        for _ in range(depth):
            with suppress(OSError):
                control = os.open("cgroup.subtree_control", os.O_WRONLY, dir_fd=here)
                os.write(control, b"+memory")
                os.close(control)
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            places.append(here)
            here = below

        def is_seen() -> bool:
            raw = walk_memcgs(1, time.time, COUNT_ONLY)
            seen = max(memcg.level for memcg in raw.memcgs)
            assert seen >= depth or raw.notes, (
                f"the walk ended at level {seen} of {depth} and does not say that it lost its way"
            )
            return seen >= depth

        assert wait_until(is_seen), "what another test left is still being released"
    finally:
        os.close(here)
        for place in reversed(places):
            os.rmdir("d", dir_fd=place)
            os.close(place)
