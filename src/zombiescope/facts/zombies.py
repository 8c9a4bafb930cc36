# SPDX-License-Identifier: Apache-2.0
"""Every zombie memory cgroup of a host, as one walk of the kernel's own tree saw it; and what an autopsy of the whole host comes
to: whose they are, what holds them, what would free them. The latter is small enough to be kept in a recording, whatever the
number.

The per-zombie records are named tuples, not frozen dataclasses: a host has up to 65,000, and these are made seven times faster.
Paths are bytes relative to the memory hierarchy; `facts.names.shown` makes them printable.
"""

import re
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from zombiescope.facts.cgroups import PAGE_BYTES_UNTOLD
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown

_OLDER = re.compile(
    r"(?:pid (\d{1,10})|nobody that is known)(?: \(.*\))?"
    r"(?:, to be reaped by pid (\d{1,10})|, (.{1,40}) socket (\d{1,20}))?",
    re.DOTALL,
)
OWN_NUMBERS = ("btrfs", "bcachefs", "overlay")
"""File systems whose stat(2) tells another device than the kernel's super block has."""


class Tier(StrEnum):
    """How the zombies were seen; best first."""

    BPF = "bpf"
    KCORE = "kcore"
    PAGES = "pages"
    RESIDUAL = "residual"


class PinKind(StrEnum):
    PAGE_CACHE = "page_cache"
    WRITEBACK = "writeback"
    TMPFS = "tmpfs"
    MEMFD = "memfd"
    SHARED_ANON = "shared_anon"
    SYSV_SHM = "sysv_shm"
    ANON = "anon"
    SWAP = "swap"
    SOCKET = "socket"
    CHILD = "child"
    TASK = "task"
    NAMESPACE = "namespace"
    UNEVICTABLE = "unevictable"
    OTHER = "other"


class Pages(NamedTuple):
    """Pages charged to the zombie itself, not to descendants. `file` is without shmem; `swap` counts swap entries."""

    file: int | None
    shmem: int | None
    anon: int | None
    unevictable: int | None
    swap: int | None


class References(NamedTuple):
    """What holds the css: `total = lru_folios + children + swap + rest`, where each is known."""

    total: int | None
    lru_folios: int | None
    """One reference a folio, however many pages it has; None when the lists were too long to count large folios."""
    children: int
    swap: int | None
    """1 while any swap entry carries the zombie's id: all of them together hold one reference."""
    rest: int | None
    """Sockets, tasks, namespaces, writeback structures, and whatever nobody has named yet."""


class HeldBy(NamedTuple):
    """A process that holds something: which one, as far as it is known, and by what."""

    process: int | None
    name: bytes = b""
    start_ticks: int | None = None
    """Since boot, as in /proc/PID/stat: the number alone may be another process by now."""
    cgroup: bytes | None = None
    """Its own, where it was read."""
    reaper: int | None = None
    """The process that should reap it, if it has ended."""
    socket: int | None = None
    """Inode of the socket by which it holds, and its family: `tcp or udp`, `unix`, `netlink`, ..."""
    family: str = ""

    @property
    def said(self) -> str:
        """`pid 4711 (name), unix socket 5`."""
        who = "nobody that is known" if self.process is None else f"pid {self.process}"
        who += f" ({shown(self.name)})" if self.name else ""
        who += "" if self.reaper is None else f", to be reaped by pid {self.reaper}"
        return who if self.socket is None else f"{who}, {self.family} socket {self.socket}"

    @classmethod
    def of_older(cls, text: object) -> "HeldBy":
        """As recordings of 0.1.0 kept it: what `said` gives, without the name."""
        found = _OLDER.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError("no holder in the place of one")
        process, reaper, family, socket = found.groups()
        numbers = [None if each is None else int(each) for each in (process, reaper, socket)]
        return cls(numbers[0], reaper=numbers[1], socket=numbers[2], family=family or "")


class Pin(NamedTuple):
    kind: PinKind
    path: bytes | None
    """Can be opened in our mount namespace, or None."""
    path_in_fs: bytes | None
    fstype: str | None
    device: str | None
    """`major:minor` of the file system, as in /proc/self/mountinfo."""
    inode: int | None
    pages: int | None
    """Pages seen on this pin; None for a pin that holds no page."""
    sampled: bool
    """Not every page of the zombie was looked at, so there may be more."""
    mapped: int | None = None
    """Pages that some process maps; None where the tier cannot see it."""
    dirty: int | None = None
    """Pages not yet written back."""
    holder: HeldBy | None = None
    """Where a process was found that holds it; one per pin, for all must let go."""

    @property
    def name(self) -> bytes | None:
        """As processes see it, else inside its file system."""
        return self.path if self.path is not None else self.path_in_fs


class Zombie(NamedTuple):
    id: int
    """Of its former directory: the inode, and the id in the kernel's trace events."""
    serial: int
    """Grows with every birth on the host since boot, and is never used twice."""
    path: bytes
    level: int
    parent: bytes
    """Path of the nearest live ancestor."""
    born_at: float | None
    """Seconds since the epoch."""
    died_at: float | None
    """Nowhere in the kernel: only the ledger knows."""
    references: References
    pages: Pages
    pins: tuple[Pin, ...]
    peak_bytes: int | None
    oom_kills: int | None
    parent_id: int | None = None
    """Of the cgroup right above, dead or alive; None where the tier does not know."""
    unsplit_pages: int = 0
    """Pages of shared or private memory that were not told apart: in neither of `pages`, which then has None for both."""


class Walk(NamedTuple):
    tier: Tier
    zombies: tuple[Zombie, ...]
    live_count: int
    """Memory cgroups with a directory, the root included."""
    gaps: tuple[Gap, ...] = ()
    chunks: int = 1
    kernel_nanoseconds: int | None = None
    """All runs together, by the kernel's own clock."""
    longest_run_nanoseconds: int | None = None
    page_bytes: int = PAGE_BYTES_UNTOLD
    """Of the machine that was looked at, wherever this is read."""

    def count_by_parent(self) -> Counter[bytes]:
        """Zombies under each nearest live ancestor."""
        return Counter(zombie.parent for zombie in self.zombies)


class Holder(NamedTuple):
    serial: int
    """Of the zombie."""
    kind: PinKind
    """TASK, NAMESPACE or SOCKET."""
    process: int
    name: bytes
    parent: int
    """The process that should reap it."""
    inode: int
    """Of a socket; else 0."""
    family: str
    """Of a socket: `tcp or udp`, `unix`, `netlink`, ...; else empty."""


class Holders(NamedTuple):
    holders: tuple[Holder, ...]
    gaps: tuple[Gap, ...] = ()


class MakerRemains(NamedTuple):
    """What one maker left."""

    maker: str
    zombies: int
    by_pin: Mapping[str, int]
    """Zombies by kind of pin; one with two kinds is counted under both."""
    first_born_at: float | None
    last_born_at: float | None
    parents: Mapping[str, int] = {}
    """Nearest live ancestors, most zombies first; the largest few."""


class PinExample(NamedTuple):
    kind: str
    maker: str
    name: str
    """The file, the segment or the holder, printable."""


class Remains(NamedTuple):
    at: float
    tier: str
    zombies: int
    makers: tuple[MakerRemains, ...]
    """Most zombies first."""
    by_pin: Mapping[str, int]
    actions: Mapping[str, Mapping[str, int]]
    """By kind of pin: what would free its zombies with the least harm, and how many."""
    examples: tuple[PinExample, ...] = ()
    parents: Mapping[str, int] = {}
    """Nearest live ancestors of all zombies, most zombies first; the largest few hundred."""
    lately: Mapping[str, int] = {}
    """By maker: born since the window began."""

    def below(self, path: str) -> int:
        """Zombies whose nearest live ancestor is at or below a path."""
        inside = path.rstrip("/") + "/"
        return sum(count for parent, count in self.parents.items() if (parent.rstrip("/") + "/").startswith(inside))

    def of(self, maker: str) -> MakerRemains | None:
        return next((each for each in self.makers if each.maker == maker), None)

    def with_pins(self, kinds: frozenset[str]) -> int:
        """Zombies held by one of these kinds; never more than there are."""
        return min(sum(self.by_pin.get(kind, 0) for kind in kinds), self.zombies)
