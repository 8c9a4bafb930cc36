# SPDX-License-Identifier: Apache-2.0
"""Which interfaces this kernel has, looked at by a story's own eyes: the source of docs/reference/kernels.md."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.vm.cells import Cell, cell_named
from tests.vm.stories.groves import Grove, dying, memory_mount, settled, zombies_on_v1
from tests.vm.stories.pins import PINS, Pin

from zombiescope.errors import ZombiescopeError
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import EventTier
from zombiescope.host.live import LiveHost
from zombiescope.kernel.bpf_walk import walk_memcgs
from zombiescope.kernel.bpf_windows import SoftirqLatency
from zombiescope.kernel.btf import BtfError
from zombiescope.kernel.kcore_walk import walk_kcore
from zombiescope.kernel.pages import open_page_frames
from zombiescope.kernel.perf_events import Wish, kernel_only, open_event
from zombiescope.kernel.tracefs import SoftirqHist
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.cgroup_lifecycle import open_ledger

Answer = bool | int | str
_CACHESTAT = 451
_TRACEFS = Path("/sys/kernel/tracing")


def write_down(cell: Cell) -> dict[str, Answer]:
    """Looks, and leaves the answers where they are brought home from."""
    seen = look(cell)
    Path("/out/interfaces.json").write_text(json.dumps(seen, indent=1))
    return seen


def look(cell: Cell) -> dict[str, Answer]:
    """Every interface by name. The order is that of the page."""
    with _grove(cell) as grove, _tracefs():
        return {name: question(cell, grove) for name, question in QUESTIONS.items()}


@contextmanager
def _grove(cell: Cell) -> Iterator[Grove]:
    grove = Grove(cell, "story-interfaces")
    (grove.folder / "child").mkdir()
    try:
        yield grove
    finally:
        grove.close()


@contextmanager
def _tracefs() -> Iterator[None]:
    is_mounted = (_TRACEFS / "events").exists()
    if not is_mounted:
        subprocess.run(["mount", "-t", "tracefs", "tracefs", str(_TRACEFS)], check=True)
    try:
        yield
    finally:
        if not is_mounted:
            subprocess.run(["umount", str(_TRACEFS)], check=True)


def _file(path: str) -> Callable[[Cell, Grove], Answer]:
    return lambda cell, grove: Path(path).exists()


def _group_file(name: str) -> Callable[[Cell, Grove], Answer]:
    return lambda cell, grove: (grove.folder / "child" / name).exists()


def _count(field: str) -> Callable[[Cell, Grove], Answer]:
    def ask(cell: Cell, grove: Grove) -> Answer:
        path = grove.folder / "cgroup.stat"
        return path.exists() and any(line.startswith(field + " ") for line in path.read_text().splitlines())

    return ask


def _memory_row(cell: Cell, grove: Grove) -> Answer:
    return any(line.startswith("memory\t") for line in Path("/proc/cgroups").read_text().splitlines())


def _symbol(name: str) -> Callable[[Cell, Grove], Answer]:
    return lambda cell, grove: f" {name}\n" in Path("/proc/kallsyms").read_text()


def _events(cell: Cell, grove: Grove) -> Answer:
    return all(
        (_TRACEFS / "events/cgroup" / name).exists() for name in ("cgroup_mkdir", "cgroup_rmdir", "cgroup_release")
    )


def _cachestat(cell: Cell, grove: Grove) -> Answer:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(_CACHESTAT, -1, None, None, 0)
    return ctypes.get_errno() != errno.ENOSYS


def _page_keeps(cell: Cell, grove: Grove) -> Answer:
    """An experiment, for no file tells it: a group dies with one page of tmpfs charged to it."""
    tmpfs = next(pin for pin in PINS if pin.kind == "tmpfs")
    if not cell.memory_is_v1:
        grove.bury("page", tmpfs.bury)
        return settled(lambda: dying(grove.folder), 1 if tmpfs.keeps(cell) else 0) == 1
    # v1 counts for the whole machine only, where an older zombie may go meanwhile: one of three will tell.
    return any(_one_more(grove, tmpfs, number) for number in range(3))


def _one_more(grove: Grove, pin: Pin, number: int) -> bool:
    before = zombies_on_v1()
    grove.bury(f"page{number}", pin.bury)
    return settled(lambda: zombies_on_v1() - before, 1, seconds=10) == 1


def _works(attempt: Callable[[], object]) -> Callable[[Cell, Grove], Answer]:
    """Whether the product does this here. What it refuses, it refuses with one of its own errors."""

    def ask(cell: Cell, grove: Grove) -> Answer:
        try:
            attempt()
        except (ZombiescopeError, BtfError, OSError):
            return False
        return True

    return ask


def _pages() -> None:
    with open_page_frames() as frames:
        assert frames.at(0, 1) is not None


def _ledger(tier: EventTier) -> Callable[[Cell, Grove], Answer]:
    def ask(cell: Cell, grove: Grove) -> Answer:
        host = LiveHost()
        hierarchy = read_memory_hierarchy(host)
        assert isinstance(hierarchy, Hierarchy)
        ledger = open_ledger(host, hierarchy, [tier])
        if isinstance(ledger, Gap):
            return False
        ledger.close()
        return ledger.tier is tier

    return ask


TIERS: dict[str, Callable[[Cell, Grove], Answer]] = {
    "every zombie by a BPF walk": _works(lambda: walk_memcgs(1, time.time)),
    "every zombie through /proc/kcore": _works(lambda: walk_kcore(LiveHost(), 1, time.time)),
    "files that pin, by page frames": _works(_pages),
    "births and deaths by BPF": _ledger(EventTier.BPF),
    "births and deaths by trace events": _ledger(EventTier.TRACEFS),
    "softirq waits by BPF": _works(lambda: SoftirqLatency(time.time, {}).close()),
    "softirq waits by trace histograms": _works(lambda: SoftirqHist().close()),
    "call chains of the kernel": _works(lambda: os.close(open_event(kernel_only(99, Wish()), 0))),
}
"""What the product does here: the page has a table of its own for these (`tools/write_kernels_page.py`)."""

QUESTIONS: dict[str, Callable[[Cell, Grove], Answer]] = {
    "a page keeps a dead group": _page_keeps,
    "cgroup.stat: nr_dying_descendants": _count("nr_dying_descendants"),
    "cgroup.stat: nr_dying_subsys_memory": _count("nr_dying_subsys_memory"),
    "/proc/cgroups: memory row": _memory_row,
    "memory.reclaim": _group_file("memory.reclaim"),
    "memory.force_empty": _group_file("memory.force_empty"),
    "memory.numa_stat": _group_file("memory.numa_stat"),
    "memory.peak": _group_file("memory.peak"),
    "memory.swap.current": _group_file("memory.swap.current"),
    "node reclaim": _file("/sys/devices/system/node/node0/reclaim"),
    "multi-generational LRU": _file("/sys/kernel/mm/lru_gen/enabled"),
    "tracepoints cgroup_mkdir, _rmdir, _release": _events,
    "BTF": _file("/sys/kernel/btf/vmlinux"),
    "bpf_loop": _symbol("bpf_loop"),
    "bpf_iter_css_new": _symbol("bpf_iter_css_new"),
    "/proc/kcore": _file("/proc/kcore"),
    "/proc/kpagecgroup": _file("/proc/kpagecgroup"),
    "cachestat(2)": _cachestat,
    "memory pressure (PSI)": _file("/proc/pressure/memory"),
    "data in /proc/kallsyms": _symbol("root_mem_cgroup"),
    "architecture": lambda cell, grove: os.uname().machine,
    "page size, bytes": lambda cell, grove: os.sysconf("SC_PAGE_SIZE"),
    **TIERS,
    "NUMA nodes": lambda cell, grove: len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))),
    "memory on": lambda cell, grove: "v1" if memory_mount(cell).name == "memory" else "v2",
}


if __name__ == "__main__":
    write_down(cell_named(os.environ["ZOMBIESCOPE_VM_CELL"]))
