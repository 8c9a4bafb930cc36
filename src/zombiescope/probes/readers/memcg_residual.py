# SPDX-License-Identifier: Apache-2.0
"""Bytes that dead cgroups still hold, by kind, below each live directory: what memory.stat counts there and no live one
owns.

v1 prints local and hierarchical figures: residual = total - own - the totals of the live children. v2 prints only hierarchical
ones, so a directory's own charge cannot be told apart, except where it has none because it hands memory on to its children.
"""

import errno
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

from zombiescope.facts.cgroups import HandedOn, Hierarchy, HierarchyVersion, LiveTree, MemoryUse, Residuals
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host, read_or_nothing
from zombiescope.probes.cgroups import GONE, children_of, hands_pages_on, is_told_to_hand_on
from zombiescope.probes.kernel_text import number, refusal

SAMPLES = 3
"""Statistics are flushed late and the tree is not read in one instant: a residual is the least of them."""
SECONDS_BETWEEN_SAMPLES = 1.0
_FACT = "parents[].bytes"
_HANDED_ON = "handed_on"
_ADD_UP = "write 1 to memory.use_hierarchy at the top before any cgroup is made; a newer kernel knows no other way"

# file, shmem, anon, unevictable, swap: plain tuples, for a host may have ten thousand live cgroups. Swap is last and may be absent.
_Use = tuple[int, ...]
_GARBLED: _Use = ()
_LARGEST = 1 << 63  # no account of pages comes near it


class _Parent(NamedTuple):
    """A live directory with a residual, and what its later samples must read again."""

    residual: _Use
    charged_children: list[bytes]


def read_residuals(host: Host, hierarchy: Hierarchy, parents: Iterable[bytes] | None) -> Residuals | Gap:
    """By nearest live parent. `parents` are those known to have zombies; v1 looks everywhere, and needs none."""
    reader = _V1(host, hierarchy) if hierarchy.version is HierarchyVersion.V1 else _V2(host, hierarchy)
    # Up to 5.10 a v1 hierarchy adds up only when told, which systemd does at boot; later ones always do.
    told = hierarchy.place(b"/", b"memory.use_hierarchy")
    if isinstance(reader, _V1) and read_or_nothing(host, told).strip() == b"0":
        return Gap(_FACT, "memory.use_hierarchy is 0: a parent's account leaves out those below it", _ADD_UP)
    try:
        found = reader.search(parents)
        for _ in range(SAMPLES - 1):
            if not any(any(parent.residual) for parent in found.values()):
                break
            host.wait(SECONDS_BETWEEN_SAMPLES)
            again = {path: reader.lower(path, parent) for path, parent in found.items()}
            found = {path: parent for path, parent in again.items() if parent}
    except OSError as error:
        return refusal(_FACT, error.filename or hierarchy.mount_point, error)
    uses = {path: _memory_use(parent.residual) for path, parent in found.items()}
    has_pages = any(any(parent.residual) for parent in found.values())
    if isinstance(reader, _V2) and has_pages and hands_pages_on(host):
        # A dead cgroup's pages went to its parent: what is counted there is the parent's own. Swap entries stay with the dead.
        uses = {path: MemoryUse(0, 0, 0, use.swap, 0) for path, use in uses.items()}
    return Residuals(uses, frozenset(reader.unsplit), frozenset(reader.garbled))


def read_handed_on(host: Host, hierarchy: Hierarchy, tree: LiveTree | Gap) -> HandedOn | Gap:
    """What a v2 directory without a process of its own is charged, and none of its live children is, came from below: from children
    that died, or from processes before they were moved to a child. Swap entries stay with the dead and are not in it."""
    if (happens := is_told_to_hand_on(host)) is None:
        return Gap(
            _HANDED_ON, "the recording does not tell whether its kernel hands a dead cgroup's memory on", "record again"
        )
    if not happens:
        return HandedOn(happens=False, by_parent={})
    if isinstance(tree, Gap):
        return tree.about(_HANDED_ON)
    if hierarchy.version is HierarchyVersion.V1:
        return Gap(_HANDED_ON, "cgroup v1 does not tell what was left to a parent from what its own processes use")
    found = _own_of_parents(host, hierarchy, tree.paths)  # leaves, too: all that was below one may have died
    if isinstance(found, Gap):
        return found.about(_HANDED_ON)
    left = {path: use._replace(swap=0) for path, use in found.by_parent.items()}
    return HandedOn(
        happens=True,
        by_parent={path: use for path, use in left.items() if use.bytes_held},
        unsplit=len((found.unsplit | found.garbled).difference(tree.leaves)),
    )


def _own_of_parents(host: Host, hierarchy: Hierarchy, parents: Iterable[bytes]) -> Residuals | Gap:
    """The same on v2 for any live directories, whoever left it to them: the lower of two samples, one right after the other."""
    reader = _V2(host, hierarchy)
    try:
        found = {path: reader.lower(path, parent) for path, parent in reader.search(parents).items()}
    except OSError as error:
        return refusal(_FACT, error.filename or hierarchy.mount_point, error)
    uses = {path: _memory_use(parent.residual) for path, parent in found.items() if parent}
    return Residuals(uses, frozenset(reader.unsplit), frozenset(reader.garbled))


class _Reader(ABC):
    """What both versions share: reading one file, the arithmetic, and what could not be understood."""

    def __init__(self, host: Host, hierarchy: Hierarchy) -> None:
        self._host, self._hierarchy = host, hierarchy
        self.unsplit: set[bytes] = set()
        self.garbled: set[bytes] = set()

    def _values(self, path: bytes) -> dict[bytes, bytes] | None:
        """memory.stat as words; None when the directory is gone."""
        try:
            words = self._host.read(self._hierarchy.place(path, b"memory.stat")).split()
        except OSError as error:
            if error.errno in GONE:
                return None
            raise
        return dict(zip(words[::2], words[1::2], strict=False))

    def _residual(self, path: bytes, above: _Use, children: list[bytes]) -> _Parent | None:
        """What `above` holds at `path` beyond the children's totals; None when one of them could not be understood."""
        charged = []
        for child in children:
            if (use := self._total(child)) == _GARBLED:
                self.garbled.add(path)
            elif use is not None and any(use):
                charged.append(child)
                above = _minus(above, use)
        return None if path in self.garbled else _Parent(tuple(max(value, 0) for value in above), charged)

    @abstractmethod
    def _total(self, path: bytes) -> _Use | None:
        """A directory's hierarchical figure; None when it is gone."""


class _V1(_Reader):
    def __init__(self, host: Host, hierarchy: Hierarchy) -> None:
        super().__init__(host, hierarchy)
        self._below: dict[bytes, _Use] = {}
        self._wanted: frozenset[bytes] = frozenset()

    def search(self, parents: Iterable[bytes] | None) -> dict[bytes, _Parent]:
        """Top down, entering only directories below which something is charged."""
        self._wanted = frozenset(parents or ())
        found: dict[bytes, _Parent] = {}
        if (total := self._total(b"/")) is None:
            raise OSError(errno.ENOENT, "No such file", self._hierarchy.place(b"/", b"memory.stat"))
        if total == _GARBLED:
            self.garbled.add(b"/")
        pending = [b"/"]
        while pending:
            path = pending.pop()
            beneath = self._below.pop(path, None)
            if beneath is None or not any(beneath):
                continue
            children = children_of(self._host, self._hierarchy, path)
            parent = self._residual(path, beneath, children)
            if parent and any(parent.residual):
                found[path] = parent
            pending.extend(children)
        return found | self._nothing_at(self._wanted - found.keys() - self.garbled)

    def _nothing_at(self, paths: frozenset[bytes]) -> dict[bytes, _Parent]:
        """Nothing is a figure for a parent that was asked for, unless it is gone."""
        totals = {path: self._total(path) for path in paths}
        self.garbled.update(path for path, total in totals.items() if total == _GARBLED)
        return {path: _Parent((0,) * len(total), []) for path, total in totals.items() if total}

    def lower(self, path: bytes, parent: _Parent) -> _Parent | None:
        """The lower of two samples; None when nothing of it is left, or can be told."""
        self._below.pop(path, None)
        if self._total(path) == _GARBLED:
            self.garbled.add(path)
        if (beneath := self._below.pop(path, None)) is None:
            return None
        lowest = _lower_of(parent, self._residual(path, beneath, parent.charged_children))
        return lowest if lowest and (any(lowest.residual) or path in self._wanted) else None

    def _total(self, path: bytes) -> _Use | None:
        """What of the figure lies beneath is remembered for when the directory is entered."""
        if (values := self._values(path)) is None:
            return None
        own, total = (
            _use_of(values, prefix, (b"cache", b"rss"), values.get(prefix + b"swap")) for prefix in (b"", b"total_")
        )
        if own is None or total is None:
            return _GARBLED
        self._below[path] = _minus(total, own)
        return total


class _V2(_Reader):
    def search(self, parents: Iterable[bytes] | None) -> dict[bytes, _Parent]:
        found: dict[bytes, _Parent] = {}
        for path in parents or ():
            if not self._hands_memory_on(path):
                self.unsplit.add(path)
                continue
            if parent := self._sample(path, children_of(self._host, self._hierarchy, path)):
                found[path] = parent
        return found

    def lower(self, path: bytes, parent: _Parent) -> _Parent | None:
        """The lower of two samples; None when the directory is gone, or cannot be understood. Nothing left is a figure too."""
        return _lower_of(parent, self._sample(path, parent.charged_children))

    def _sample(self, path: bytes, children: list[bytes]) -> _Parent | None:
        total = self._total(path)
        if total == _GARBLED:
            self.garbled.add(path)
        return self._residual(path, total, children) if total else None

    def _hands_memory_on(self, path: bytes) -> bool:
        """A cgroup that enables memory for its children has no process of its own, the root excepted."""
        file = self._hierarchy.place(path, b"cgroup.subtree_control")
        return path != b"/" and b"memory" in read_or_nothing(self._host, file).split()

    def _total(self, path: bytes) -> _Use | None:
        if (values := self._values(path)) is None:
            return None
        swap = number(read_or_nothing(self._host, self._hierarchy.place(path, b"memory.swap.current")))
        return _use_of(values, b"", (b"file", b"anon"), swap) or _GARBLED


def _use_of(
    values: dict[bytes, bytes], prefix: bytes, names: tuple[bytes, bytes], swap: bytes | int | None
) -> _Use | None:
    """`names`: what the file calls cache and anonymous memory. Kinds are counted one after the other, so cache less shmem may be a
    little below zero; the others are what was read."""
    try:
        cache, anon, shmem, unevictable = (int(values[prefix + name]) for name in (*names, b"shmem", b"unevictable"))
        use: _Use = (cache - shmem, shmem, anon, unevictable)
        use = use if swap is None else (*use, int(swap))
    except (KeyError, ValueError):
        return None
    return use if min(use[1:]) >= 0 and max(use) < _LARGEST and use[0] > -_LARGEST else None


def _minus(left: _Use, right: _Use) -> _Use:
    """Kind by kind; swap is left out of the result where either side does not have it."""
    return tuple(a - b for a, b in zip(left, right, strict=False))


def _lower_of(parent: _Parent, again: _Parent | None) -> _Parent | None:
    """The lower of two samples, kind by kind."""
    return again and _Parent(tuple(map(min, parent.residual, again.residual)), parent.charged_children)


def _memory_use(use: _Use) -> MemoryUse:
    file, shmem, anon, unevictable, *swap = use
    return MemoryUse(file, shmem, anon, swap[0] if swap else None, unevictable)
