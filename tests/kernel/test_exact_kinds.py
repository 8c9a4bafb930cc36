# SPDX-License-Identifier: Apache-2.0
"""Ground truth: one zombie of every kind, made here, and what the walk says of each."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from mmap import PAGESIZE
from pathlib import Path

import pytest
from tests.kernel.command import IN_MACHINE
from tests.kernel.exact_tiers import HAS_SWAP, IS_V2, PAGES_PIN, TIERS, told_if
from tests.kernel.process_pages import private_pages
from tests.kernel.zombie_maker import HIERARCHY, Maker, drain, run_inside, wait_until

from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import PinKind, Tier, Walk, Zombie
from zombiescope.host.live import LiveHost
from zombiescope.kernel.bpf_object import refusal
from zombiescope.pipeline.autopsy import dissect
from zombiescope.probes.readers import zombie_walk
from zombiescope.probes.readers.zombie_walk import read_former_paths, read_zombie_serials, read_zombie_walk

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


@pytest.fixture
def maker() -> Iterator[Maker]:
    with Maker(f"exact-{os.getpid()}-{time.monotonic_ns() % 1_000_000}") as made:
        yield made


@pytest.fixture(params=TIERS, autouse=True)
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Tier:
    """Every test is run by every tier; a lower one is reached by refusing the one above."""
    wanted: Tier = request.param
    if wanted is not Tier.BPF:

        def refused(*_: object) -> None:
            raise refusal("PROG_LOAD", errno.EPERM)

        monkeypatch.setattr(zombie_walk, "walk_memcgs", refused)
    found = read_zombie_walk(LiveHost())
    assert isinstance(found, Walk) and found.tier is wanted
    return wanted


def walked() -> Walk:
    found = read_zombie_walk(LiveHost())
    assert isinstance(found, Walk), found
    return found


def zombies_of(maker: Maker, walk: Walk | None = None) -> dict[bytes, Zombie]:
    """By the name after the maker's directory."""
    start = maker.prefix + b"/"
    dead = (walk or walked()).zombies
    return {zombie.path.removeprefix(start): zombie for zombie in dead if zombie.path.startswith(start)}


def settled(maker: Maker, count: int) -> dict[bytes, Zombie]:
    """Ordinary deaths are over, and nothing waits in a per-CPU batch."""

    def is_so() -> bool:
        drain()
        found = zombies_of(maker)
        return len(found) == count and all(zombie.references.total is not None for zombie in found.values())

    assert wait_until(is_so), zombies_of(maker)
    return zombies_of(maker)


@told_if(PAGES_PIN)
def test_every_kind_is_called_by_its_name(maker: Maker) -> None:
    begun = time.time()
    work, limit = maker.sockets()
    ids = {
        b"tmpfs": maker.die(b"tmpfs", maker.tmpfs(b"three pages\n\x1b[31m\xff", 3)),
        b"file": maker.die(b"file", maker.file(b"on\ndisk", 5)),
        b"memfd": maker.die(b"memfd", maker.memfd("held", 2)),
        b"anon": maker.die(b"anon", maker.shared_anon(4)),
        b"segment": maker.die(b"segment", maker.segment(6)),
        b"socket": maker.die(b"socket", work, limit),
        b"parent/child": maker.die(b"parent/child", maker.tmpfs(b"kid", 1)),
    }
    ids[b"parent"] = os.stat(maker.top / "parent").st_ino
    os.rmdir(maker.top / "parent")
    maker.die(b"nothing", lambda: None)

    found = settled(maker, len(ids))

    assert {name: zombie.id for name, zombie in found.items()} == ids
    kinds = {name: [pin.kind for pin in zombie.pins] for name, zombie in found.items()}
    assert kinds[b"tmpfs"] == kinds[b"parent/child"] == [PinKind.TMPFS]
    assert PinKind.PAGE_CACHE in kinds[b"file"]
    assert kinds[b"memfd"] == [PinKind.MEMFD]
    assert kinds[b"anon"] == [PinKind.SHARED_ANON]
    assert kinds[b"segment"] == [PinKind.SYSV_SHM]
    assert kinds[b"parent"] == [PinKind.CHILD]
    assert kinds[b"socket"][-1] in {PinKind.SOCKET, PinKind.OTHER}
    assert (found[b"socket"].references.rest or 0) >= 1

    tmpfs = found[b"tmpfs"]
    assert (tmpfs.pages.shmem, tmpfs.pages.file, tmpfs.pages.anon, tmpfs.pins[0].sampled) == (3, 0, 0, False)
    assert tmpfs.references[:4] == (3, 3, 0, 0) and tmpfs.references.rest == 0
    assert tmpfs.pins[0].path == os.fsencode(maker.shared) + b"/three pages\n\x1b[31m\xff"
    assert tmpfs.pins[0].inode == os.stat(tmpfs.pins[0].path).st_ino
    on_disk = {pin.path: pin for pin in found[b"file"].pins}
    path = os.fsencode(maker.disk) + b"/on\ndisk"
    assert on_disk[path].pages == 5 and on_disk[path].inode == os.stat(path).st_ino
    device = os.stat(path).st_dev
    assert on_disk[path].device == f"{os.major(device)}:{os.minor(device)}"
    assert found[b"memfd"].pins[0].path is None and found[b"memfd"].pins[0].path_in_fs == b"/memfd:held"
    assert (found[b"segment"].pages.shmem, found[b"anon"].pages.shmem) == (6, 4)
    for zombie in found.values():
        assert zombie.parent == maker.prefix
        assert zombie.born_at is not None and begun - 1 <= zombie.born_at <= time.time() + 1
    assert found[b"parent"].level + 1 == found[b"parent/child"].level


@told_if(PAGES_PIN)
def test_each_pin_taken_away_releases_its_zombie(maker: Maker) -> None:
    maker.die(b"one", maker.tmpfs(b"one", 1))
    maker.die(b"two", maker.tmpfs(b"two", 1))
    assert settled(maker, 2).keys() == {b"one", b"two"}
    (maker.shared / "one").unlink()
    assert settled(maker, 1).keys() == {b"two"}


@told_if(PAGES_PIN)
def test_a_large_zombie_is_counted_whole_or_says_that_it_was_not(maker: Maker) -> None:
    """Small ones go before and after it: it gets a run of its own and costs them nothing."""
    maker.many(5)
    maker.die(b"large", maker.tmpfs(b"large", 9000))
    maker.many(5, 5)
    settled(maker, 11)
    walk = walked()  # one for all that follows: whether the large one is counted whole is a matter of each walk's time
    found = zombies_of(maker, walk)
    zombie = found[b"large"]
    (pin,) = zombie.pins
    assert pin.path == os.fsencode(maker.shared) + b"/large"
    assert zombie.references.total == zombie.references.lru_folios == 9000
    if zombie.pages.shmem is None:
        assert pin.sampled and (pin.pages or 0) > 0
        assert "zombies[].pages.shmem" in {gap.fact for gap in walk.gaps}
    else:
        assert (zombie.pages.shmem, pin.pages, pin.sampled) == (9000, 9000, False)
    assert all(found[b"z%d" % number].pages.shmem == 1 for number in range(10))


@told_if(PAGES_PIN and Tier.BPF in TIERS)  # 5.10 leaves small figures of a parent out of its memory.stat
def test_pages_by_kind_of_one_too_long_to_follow_are_told_by_its_parent(maker: Maker) -> None:
    """More folios than a run can follow: memory.stat of the parent says of which kind they are, and no page is left out."""
    pages = 9_000 if IN_MACHINE else 60_000
    maker.die(b"huge", maker.tmpfs(b"huge", pages))
    maker.die(b"small", maker.tmpfs(b"small", 3))
    settled(maker, 2)

    def is_told() -> bool:
        """The figures of memory.stat may be two seconds old."""
        found = {body.zombie.path: body.zombie.pages for body in dissect(LiveHost()).autopsy.bodies}
        kinds = [(found[maker.prefix + name].shmem, found[maker.prefix + name].anon) for name in (b"/huge", b"/small")]
        return kinds == [(pages, 0), (3, 0)]

    assert wait_until(is_told)


@told_if(PAGES_PIN)
def test_a_cgroup_name_as_long_as_names_go(maker: Maker) -> None:
    name = b"n" * 254 + b"\xff"
    maker.die(name, maker.tmpfs(b"f" * 255, 1))
    (zombie,) = settled(maker, 1).values()
    assert zombie.path == maker.prefix + b"/" + name
    assert zombie.pins[0].path == os.fsencode(maker.shared) + b"/" + b"f" * 255


@told_if(PAGES_PIN)
def test_a_file_thirty_folders_down(maker: Maker) -> None:
    folder = maker.shared
    for level in range(30):
        folder = folder / f"folder number {level}"
    folder.mkdir(parents=True)
    maker.die(b"deep", lambda: (folder / "file").write_bytes(b"x"))
    (zombie,) = settled(maker, 1).values()
    assert zombie.pins[0].path == os.fsencode(folder / "file")


@told_if(PAGES_PIN)
def test_a_file_with_several_names_is_shown_by_one_that_leads_to_it(maker: Maker) -> None:
    """Whichever the kernel knows; where that one is gone, by none."""
    names = [maker.shared / "first", maker.shared / "second", maker.shared / "third"]

    def write_and_link() -> None:
        maker.tmpfs(b"first", 1)()
        for name in names[1:]:
            os.link(names[0], name)

    maker.die(b"linked", write_and_link)
    inode = names[0].stat().st_ino
    for gone in names[:2]:
        (pin,) = settled(maker, 1)[b"linked"].pins
        assert pin.inode == inode
        assert pin.path is None or os.stat(pin.path).st_ino == inode
        gone.unlink()
    (pin,) = settled(maker, 1)[b"linked"].pins
    assert pin.path in (None, os.fsencode(names[2]))


@told_if(PAGES_PIN)
def test_private_memory_left_by_a_process_that_moved_away(maker: Maker) -> None:
    """The process lives on, in the root: its pages stay charged where they were born."""
    place = maker.make(b"moved")
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with open(place + b"/cgroup.procs", "w") as file:
                file.write("0")
            # A mapping of its own: memory of the allocator may have been touched, and charged, before.
            area = mmap.mmap(-1, PAGESIZE * 50, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            area.write(b"x" * PAGESIZE * 50)
            with open(HIERARCHY / "cgroup.procs", "w") as file:
                file.write("0")
            os.write(ready[1], b"x")
            os.read(go[0], 1)
        finally:
            os._exit(0)
    try:
        os.read(ready[0], 10)
        os.rmdir(place)
        (zombie,) = settled(maker, 1).values()
        assert (zombie.pages.anon or 0) >= 50
        if Path("/proc/kpagecgroup").exists():
            assert zombie.pages.anon == private_pages(child, os.stat(maker.top).st_ino), "page by page"
        assert PinKind.ANON in {pin.kind for pin in zombie.pins}
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)


@told_if(PAGES_PIN)
def test_locked_pages_are_unevictable(maker: Maker) -> None:
    ready, go = os.pipe(), os.pipe()
    path = os.fsencode(maker.shared) + b"/locked"
    maker.die(b"locked", maker.tmpfs(b"locked", 3))
    child = os.fork()
    if child == 0:
        try:
            with open(path, "r+b") as file:
                area = mmap.mmap(file.fileno(), 3 * PAGESIZE)
            libc = ctypes.CDLL(None, use_errno=True)
            anchor = ctypes.c_char.from_buffer(area)
            status = libc.mlock(ctypes.c_void_p(ctypes.addressof(anchor)), ctypes.c_size_t(3 * PAGESIZE))
            os.write(ready[1], b"%d" % status)
            os.read(go[0], 1)
        finally:
            os._exit(0)
    try:
        assert os.read(ready[0], 10) == b"0"
        assert wait_until(lambda: [z.pages.unevictable for z in settled(maker, 1).values()] == [3])
        (zombie,) = settled(maker, 1).values()
        assert [(pin.kind, pin.pages) for pin in zombie.pins] == [(PinKind.UNEVICTABLE, 3)]
        assert (zombie.references.total, zombie.references.rest) == (3, 0)
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)


def test_the_walk_of_a_host_reports_its_cost(tier: Tier) -> None:
    found = walked()
    assert found.live_count >= 1
    if tier is Tier.BPF:
        assert found.kernel_nanoseconds and found.longest_run_nanoseconds
        assert found.longest_run_nanoseconds <= found.kernel_nanoseconds
    else:
        assert found.kernel_nanoseconds is None
        assert any(gap.fact == "tier" and "EPERM" in gap.reason for gap in found.gaps)


def test_the_second_look_sees_the_same_dead(maker: Maker) -> None:
    work, limit = maker.sockets()
    maker.die(b"held", work, limit)
    (zombie,) = settled(maker, 1).values()
    dead = read_zombie_serials(LiveHost())
    assert not isinstance(dead, Gap) and zombie.serial in dead
    former = read_former_paths(LiveHost())
    swapped = None if zombie.references.swap is None else False
    assert not isinstance(former, Gap) and (zombie.path, swapped) in former, "and so does a count by maker"


def test_sockets_hold_a_zombie_without_pages(maker: Maker) -> None:
    """On every kernel, those that hand pages on included."""
    work, limit = maker.sockets()
    number = maker.die(b"socket\x1b[2J\xff", work, limit)
    (zombie,) = settled(maker, 1).values()
    assert (zombie.id, zombie.path) == (number, maker.prefix + b"/socket\x1b[2J\xff")
    assert (zombie.references.rest or 0) >= 1
    assert zombie.pins[-1].kind in {PinKind.SOCKET, PinKind.OTHER}


@told_if(IS_V2)
def test_a_file_dirty_at_death_is_held_by_its_writeback_structure(maker: Maker) -> None:
    path = os.fsencode(maker.disk) + b"/dirty\nlog"

    def leave_dirty() -> None:
        with open(path, "wb") as file:
            file.write(b"x" * 8192)

    os.sync()
    maker.die(b"dirty", leave_dirty)
    (zombie,) = settled(maker, 1).values()
    held = {pin.path: pin for pin in zombie.pins if pin.kind is PinKind.WRITEBACK}
    assert path in held, zombie.pins
    assert (held[path].inode, held[path].pages) == (os.stat(path).st_ino, None)
    assert PinKind.OTHER not in {pin.kind for pin in zombie.pins if pin.pages is None}


@told_if(HAS_SWAP and (HIERARCHY / "memory.reclaim").exists())
def test_pages_swapped_out_while_alive_hold_the_zombie_by_its_id(maker: Maker) -> None:
    place = maker.make(b"swapped")
    run_inside(place, maker.tmpfs(b"cold", 20))
    drain()

    def is_out() -> bool:
        with suppress(OSError), open(place + b"/memory.reclaim", "w") as file:
            file.write("1M")
        with open(place + b"/memory.swap.current") as file:
            return int(file.read()) >= 20 * PAGESIZE

    assert wait_until(is_out)
    os.rmdir(place)
    (zombie,) = settled(maker, 1).values()
    assert zombie.pages.swap == 20
    assert zombie.references.swap == 1
    assert PinKind.SWAP in {pin.kind for pin in zombie.pins}
    former = read_former_paths(LiveHost())
    assert not isinstance(former, Gap) and (zombie.path, True) in former


def test_processes_run_where_the_maker_says(maker: Maker) -> None:
    """The maker itself is honest: a failing process inside is an error, not an empty zombie."""
    os.mkdir(maker.top / "bad")
    with pytest.raises(RuntimeError):
        run_inside(os.fsencode(maker.top / "bad"), lambda: 1 / 0)
