# SPDX-License-Identifier: Apache-2.0
"""The pages tier on real zombies: which kinds it names, that it proves them, and that looking leaves no trace."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import time
from collections.abc import Iterable, Iterator
from functools import partial
from mmap import PAGESIZE
from pathlib import Path

import pytest
from tests.kernel.exact_tiers import IS_V2, told_if
from tests.kernel.idle_pages import drops_idle_pages
from tests.kernel.zombie_maker import Maker, drain, run_inside, void, wait_until

from zombiescope.facts.cgroups import Hierarchy, MemoryUse, Residuals
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import UNNAMED_KINDS, PagePins, PinnedFile, Proof
from zombiescope.facts.zombies import HeldBy, PinKind
from zombiescope.host.live import LiveHost
from zombiescope.kernel.file_pages import Candidate, FilePages
from zombiescope.kernel.pages import open_page_frames, open_window
from zombiescope.pipeline.autopsy import look_beside_pages
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.memcg_residual import read_residuals
from zombiescope.probes.readers.page_pins import frame_ranges, read_page_pins
from zombiescope.probes.readers.zombie_walk import read_former_paths

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
HOST = LiveHost()
_libc = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS, _NEW_IPC = 0x00020000, 0x08000000
_PRIVATE_RECURSIVE = 0x44000
ANON, SWAPBACKED = 1 << 12, 1 << 14


@pytest.fixture
def maker() -> Iterator[Maker]:
    if b" lru_reparent_memcg\n" in Path("/proc/kallsyms").read_bytes():
        pytest.skip("this kernel hands the pages of a dead cgroup on to its parent")
    with Maker(f"pages-{os.getpid()}-{time.monotonic_ns() % 1_000_000}") as made:
        yield made


def memory() -> Hierarchy:
    found = read_memory_hierarchy(HOST)
    assert isinstance(found, Hierarchy), found
    return found


def residuals_of(maker: Maker) -> Residuals:
    """What memory.stat says of this maker alone; others work on the same machine."""
    found = read_residuals(HOST, memory(), [maker.prefix])
    assert isinstance(found, Residuals), found
    return found._replace(by_parent={path: use for path, use in found.by_parent.items() if path == maker.prefix})


def wait_until_offline(maker: Maker) -> None:
    """After rmdir a cgroup is taken offline by a callback and a worker; until then its pages are told as its own. Empty ones that
    die after it are gone after that."""
    for number in range(3):
        place = maker.make(b"empty%d" % number)
        path = maker.prefix + b"/empty%d" % number
        os.rmdir(place)
        assert wait_until(lambda path=path: path not in dead_paths())  # type: ignore[misc]


def dead_paths() -> set[bytes]:
    found = read_former_paths(HOST)
    assert not isinstance(found, Gap), found
    return {path for path, _ in found}


def look(maker: Maker) -> PagePins:
    """The figure is made up, so that no lag of memory.stat comes into it."""
    wait_until_offline(maker)
    plenty = MemoryUse(1 << 30, 1 << 30, 0, 0, 0)
    found = read_page_pins(HOST, memory(), Residuals({maker.prefix: plenty}, frozenset()))
    assert isinstance(found, PagePins), found
    return found


def by_kind(pins: PagePins) -> dict[PinKind, PinnedFile]:
    found = {file.pin.kind: file for file in pins.files}
    assert len(found) == len(pins.files), pins.files
    return found


def bare(file: PinnedFile) -> bytes:
    """Names of the kernel's own tmpfs, which has no folders."""
    return (file.pin.path_in_fs or b"").lstrip(b"/")


def test_shared_memory_of_every_kind_is_named_and_adds_up_to_the_residual(maker: Maker) -> None:
    name = b"two\npages \x1b[31m\xff\\012"
    maker.die(b"tmpfs", maker.tmpfs(name, 2))
    maker.die(b"memfd", maker.memfd("held", 3))
    maker.die(b"anon", maker.shared_anon(4))
    maker.die(b"segment", maker.segment(5))
    figure = residuals_of(maker).by_parent.get(maker.prefix)
    assert figure is None or figure.shmem in (0, 14 * PAGESIZE)  # kernels before 5.16 leave small figures out
    pins = look(maker)
    found = by_kind(pins)
    assert {kind: file.pin.pages for kind, file in found.items()} == {
        PinKind.TMPFS: 2,
        PinKind.MEMFD: 3,
        PinKind.SHARED_ANON: 4,
        PinKind.SYSV_SHM: 5,
    }
    assert found[PinKind.TMPFS].pin.path == os.fsencode(maker.shared) + b"/" + name
    assert bare(found[PinKind.MEMFD]) == b"memfd:held"
    assert found[PinKind.MEMFD].holders == (os.getpid(),)
    assert (found[PinKind.MEMFD].pin.holder or HeldBy(None)).process == os.getpid()
    assert found[PinKind.SYSV_SHM].pin.holder is None
    assert bare(found[PinKind.SHARED_ANON]) == b"dev/zero"
    assert bare(found[PinKind.SYSV_SHM]) == b"SYSV00000000"
    assert pins.segments_attached >= 1
    assert all(file.parent == maker.prefix for file in pins.files)
    assert not pins.undecided


def test_an_unlinked_open_file_and_an_unlinked_mapped_one_are_named(maker: Maker) -> None:
    kept = []
    for name, is_mapped in ((b"open", False), (b"mapped", True)):
        maker.die(name, maker.tmpfs(name, 1))
        path = os.fsencode(maker.shared) + b"/" + name
        descriptor = os.open(path, os.O_RDWR)
        os.unlink(path)
        if is_mapped:
            kept.append(mmap.mmap(descriptor, PAGESIZE))
            os.close(descriptor)
        else:
            maker.hold(partial(os.close, descriptor))
    found = {file.pin.path_in_fs: file for file in look(maker).files}
    inside = os.fsencode(maker.shared).removeprefix(b"/dev/shm")
    assert set(found) == {inside + b"/open", inside + b"/mapped"}
    assert all(file.pin.kind is PinKind.TMPFS and file.pin.path is None for file in found.values())
    assert all(file.holders == (os.getpid(),) for file in found.values())
    kept[0].close()


def test_a_tmpfs_of_another_mount_namespace_is_reached(maker: Maker, tmp_path: Path) -> None:
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            assert _libc.unshare(_NEW_MOUNTS) == 0
            assert _libc.mount(b"none", b"/", None, _PRIVATE_RECURSIVE, None) == 0
            assert _libc.mount(b"hidden", os.fsencode(tmp_path), b"tmpfs", 0, None) == 0
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            os.write(ready[1], b"x" if os.path.exists(tmp_path / "far") else b"-")
            os.read(go[0], 1)
        finally:
            os._exit(0)
    try:
        assert os.read(ready[0], 1) == b"x"
        far = b"/proc/%d/root" % child + os.fsencode(tmp_path) + b"/far"
        maker.die(b"far", lambda: void(Path(os.fsdecode(far)).write_bytes(bytes(PAGESIZE * 2))))
        os.write(go[1], b"x")
        assert os.read(ready[0], 1) == b"x"
        (file,) = look(maker).files
        assert (file.pin.kind, file.pin.path, file.pin.path_in_fs, file.pin.pages) == (PinKind.TMPFS, far, b"/far", 2)
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)


def test_a_segment_of_another_ipc_namespace_is_reached(maker: Maker) -> None:
    ready, go = os.pipe(), os.pipe()
    place = os.fsencode(maker.top) + b"/far"
    os.mkdir(place)
    child = os.fork()
    if child == 0:
        try:
            assert _libc.unshare(_NEW_IPC) == 0
            number = _libc.shmget(0, PAGESIZE * 3, 0o1600)
            run_inside(place, lambda: fill_segment(number, 3))
            os.write(ready[1], b"x")
            os.read(go[0], 1)
        finally:
            os._exit(0)
    try:
        assert os.read(ready[0], 1) == b"x"
        os.rmdir(place)
        (file,) = look(maker).files
        assert (file.pin.kind, bare(file), file.pin.pages) == (PinKind.SYSV_SHM, b"SYSV00000000", 3)
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)


def fill_segment(number: int, pages: int) -> None:
    _libc.shmat.restype = ctypes.c_void_p
    ctypes.memset(_libc.shmat(number, None, 0), 1, PAGESIZE * pages)


def test_disk_files_are_named_while_somebody_has_them_open_and_only_then(maker: Maker) -> None:
    maker.die(b"file", maker.file(b"log", 3))
    assert look(maker).files == ()
    with open(maker.disk / "log", "rb"):
        (file,) = [each for each in look(maker).files if each.pin.path_in_fs and each.pin.path_in_fs.endswith(b"/log")]
    assert (file.pin.kind, file.pin.path, file.pin.pages) == (
        PinKind.PAGE_CACHE,
        os.fsencode(maker.disk) + b"/log",
        3,
    )


def test_what_it_cannot_name_it_does_not_name(maker: Maker) -> None:
    """Anonymous memory of a process that moved out, and a socket: no file holds either."""
    ready, go = os.pipe(), os.pipe()
    place = os.fsencode(maker.top) + b"/anon"
    os.mkdir(place)
    child = os.fork()
    if child == 0:
        run = False
        try:
            Path(os.fsdecode(place), "cgroup.procs").write_text("0")
            area = mmap.mmap(-1, PAGESIZE * 64, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            area.write(b"x" * PAGESIZE * 64)
            Path(os.fsdecode(memory().mount_point), "cgroup.procs").write_text("0")
            run = True
        finally:
            os.write(ready[1], b"x" if run else b"-")
            os.read(go[0], 1)
            os._exit(0)
    try:
        assert os.read(ready[0], 1) == b"x"
        os.rmdir(place)
        pins = look(maker)
        assert not {file.pin.kind for file in pins.files} & UNNAMED_KINDS
        assert PinKind.ANON in UNNAMED_KINDS and PinKind.SOCKET in UNNAMED_KINDS
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)


@told_if(not IS_V2)
def test_a_parents_own_pages_are_told_from_its_zombies(maker: Maker) -> None:
    """Of v1 alone: v2 has no figure of a parent's own that could move."""
    shared = os.fsencode(maker.shared)
    run_inside(os.fsencode(maker.top), maker.tmpfs(b"own", 5))
    run_inside(os.fsencode(maker.top), maker.tmpfs(b"mixed", 4))

    def add_to_mixed() -> None:
        with open(shared + b"/mixed", "r+b") as file:
            file.seek(4 * PAGESIZE)
            file.write(b"z" * PAGESIZE * 7)

    maker.die(b"dead", maker.tmpfs(b"dead", 3))
    maker.die(b"one", maker.tmpfs(b"one", 1))
    maker.die(b"both", add_to_mixed)
    pins = look(maker)
    found = {file.pin.path: (file.pin.pages, file.proof) for file in pins.files}
    assert found == {
        shared + b"/dead": (3, Proof.MAPPED),
        shared + b"/one": (1, Proof.MAPPED),
        shared + b"/mixed": (7, Proof.MAPPED),
    }
    assert pins.undecided == {maker.prefix: 5 + 4}


def test_looking_allocates_nothing_and_ages_nothing(maker: Maker) -> None:
    """Where the kernel looks for idle pages itself (DAMON), a few may age meanwhile. A look that aged would age all."""
    hole = maker.shared / "hole"
    pages = range(0, 6400, 100)
    maker.die(b"hole", lambda: sparse(hole, pages))
    drain()
    before = hole.stat()
    aged = [flags_of(hole, page) for page in pages]
    (file,) = look(maker).files
    assert file.pin.pages == len(pages)
    after = hole.stat()
    assert (after.st_blocks, after.st_atime_ns, after.st_mtime_ns) == (
        before.st_blocks,
        before.st_atime_ns,
        before.st_mtime_ns,
    )
    changed = [page for page, flags in zip(pages, aged, strict=True) if flags_of(hole, page) != flags]
    assert len(changed) <= (len(pages) // 8 if drops_idle_pages() else 0)


def sparse(path: Path, pages: Iterable[int]) -> None:
    with path.open("wb") as file:
        for page in pages:
            file.seek(page * PAGESIZE)
            file.write(b"z" * PAGESIZE)
        file.truncate(1 << 34)


def flags_of(path: Path, page: int) -> int:
    """The page's age: referenced and active, as kpageflags has them."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOATIME)
    with open_window(1) as window, open_page_frames() as frames, open("/proc/kpageflags", "rb") as flags:
        window.lay(descriptor, page, 1)
        window.touch([0])
        (frame,) = frames.at(window.address // PAGESIZE, 1)
        assert frame
        flags.seek(frame * 8)
        value: int = struct.unpack("Q", flags.read(8))[0]
        window.clear()
    os.close(descriptor)
    return value & (1 << 2 | 1 << 6)


def test_a_file_that_shrinks_between_the_question_and_the_touch_does_no_harm(maker: Maker) -> None:
    path = maker.shared / "shrinks"
    path.write_bytes(bytes(PAGESIZE * 8))
    with open_window(8) as window, path.open("rb") as file:
        window.lay(file.fileno(), 0, 8)
        resident = window.resident()
        assert resident == list(range(8))
        os.truncate(path, PAGESIZE)
        window.touch(resident)
        with open_page_frames() as frames:
            assert [bool(frame) for frame in frames.at(window.address // PAGESIZE, 8)] == [True] + [False] * 7


def test_only_regular_files_are_opened(maker: Maker) -> None:
    fifo = os.fsencode(maker.shared) + b"/fifo"
    os.mkfifo(fifo)
    gone = os.fsencode(maker.shared) + b"/gone"
    link = os.fsencode(maker.shared) + b"/link"
    os.symlink(b"/etc/passwd", link)
    with open_window() as window, open_page_frames() as frames:
        pages = FilePages(frames, window, {1})
        candidates = [Candidate(path, path, path, "tmpfs") for path in (fifo, gone, link)]
        assert list(pages.look(candidates, lambda: False)) == []
        assert pages.files_seen == 0


def test_without_time_nothing_is_claimed_and_it_is_said(maker: Maker) -> None:
    maker.die(b"tmpfs", maker.tmpfs(b"file", 1))
    residuals = Residuals({maker.prefix: MemoryUse(0, PAGESIZE, 0, 0, 0)}, frozenset())
    found = read_page_pins(HOST, memory(), residuals, seconds=0)
    assert isinstance(found, PagePins)
    assert found.files == ()
    assert any("within 0 s" in gap.reason for gap in found.gaps)


def shared_pages_of(cgroup: bytes) -> int:
    """A witness of its own: every page of shared memory of this machine whose closest live memory cgroup is this one."""
    inode, found = HOST.inode(memory().place(cgroup)), 0
    with open("/proc/kpagecgroup", "rb", 0) as owners, open("/proc/kpageflags", "rb", 0) as flags:
        for first, end in frame_ranges(HOST.read(b"/proc/iomem")):
            for start in range(first, end, 1 << 15):
                count = min(1 << 15, end - start) * 8
                whose, what = (
                    memoryview(os.pread(file.fileno(), count, start * 8)).cast("Q") for file in (owners, flags)
                )
                pairs = zip(whose, what, strict=False)
                found += sum(owner == inode and kind & (SWAPBACKED | ANON) == SWAPBACKED for owner, kind in pairs)
    return found


def test_one_call_looks_at_the_pages_and_one_beside_them(maker: Maker) -> None:
    maker.die(b"tmpfs", maker.tmpfs(b"file", 3))
    residuals = Residuals({maker.prefix: MemoryUse(0, 3 * PAGESIZE, 0, 0, 0)}, frozenset())

    # The kernel may take a moment, and a batch of another CPU may hold some of its pages.
    assert wait_until(lambda: shared_pages_of(maker.prefix) == 3)
    pins = read_page_pins(HOST, memory(), residuals)
    assert isinstance(pins, PagePins)
    assert sum(file.pin.pages or 0 for file in pins.files) == shared_pages_of(maker.prefix) == 3, pins
    assert not isinstance(look_beside_pages(HOST, memory()).tasks, Gap)
