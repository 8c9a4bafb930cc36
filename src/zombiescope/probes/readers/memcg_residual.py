# SPDX-License-Identifier: Apache-2.0
"""Bytes that dead cgroups still hold, by kind, below each live directory: what memory.stat counts there and no live one owns.

v1 prints local and hierarchical figures: residual = total - own - the totals of the live children. v2 prints only hierarchical
ones, so a directory's own charge cannot be told apart, except where it has none because it hands memory on to its children.
Statistics are flushed late and the tree is not read in one instant, so a residual is the least of three samples.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from typing import NamedTuple

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion, MemoryUse, Residuals
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import number, refusal

SAMPLES = 3
SECONDS_BETWEEN_SAMPLES = 1.0
_FACT = "parents[].bytes"
_GONE = (errno.ENOENT, errno.ENODEV)

# file, shmem, anon, unevictable, swap: plain tuples, for a host may have ten thousand live cgroups. Swap is last and may be absent.
_Use = tuple[int, ...]


class _Parent(NamedTuple):
    """A live directory with a residual, and what its later samples must read again."""

    residual: _Use
    charged_children: list[bytes]


def read_residuals(host: Host, hierarchy: Hierarchy, parents: Iterable[bytes] | None) -> Residuals | Gap:
    """By nearest live parent. `parents` are those known to have zombies; None means look everywhere (v1)."""
    reader = _V1(host, hierarchy) if hierarchy.version is HierarchyVersion.V1 else _V2(host, hierarchy)
    try:
        found = reader.search(parents)
        for _ in range(SAMPLES - 1):
            if not found:
                break
            host.wait(SECONDS_BETWEEN_SAMPLES)
            again = {path: reader.lower(path, parent) for path, parent in found.items()}
            found = {path: parent for path, parent in again.items() if parent}
    except OSError as error:
        return refusal(_FACT, error.filename or hierarchy.mount_point, error)
    uses = {path: _memory_use(parent.residual) for path, parent in found.items()}
    return Residuals(uses, reader.unsplit(), reader.gaps(), has_swap=reader.has_swap)


class _Reader:
    """What both versions share: reading one file, the arithmetic, and what could not be understood."""

    def __init__(self, host: Host, hierarchy: Hierarchy) -> None:
        self._host = host
        self._hierarchy = hierarchy
        self._garbled: set[bytes] = set()
        self._unsplit: set[bytes] = set()
        self.has_swap = True

    def unsplit(self) -> frozenset[bytes]:
        return frozenset(self._unsplit)

    def gaps(self) -> tuple[Gap, ...]:
        if not self._garbled:
            return ()
        return (
            Gap(
                _FACT,
                f"memory.stat of {len(self._garbled)} live cgroups was not in a form we know: their parents are left out",
            ),
        )

    def _values(self, path: bytes) -> dict[bytes, bytes] | None:
        """memory.stat as words; None when the directory is gone."""
        try:
            words = self._host.read(self._hierarchy.place(path, b"memory.stat")).split()
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise
        return dict(zip(words[::2], words[1::2], strict=False))

    def _children(self, path: bytes) -> list[bytes]:
        prefix = b"" if path == b"/" else path
        try:
            return [prefix + b"/" + name for name in self._host.subdirectories(self._hierarchy.place(path))]
        except OSError as error:
            if error.errno in _GONE:
                return []
            raise

    def _residual(self, above: _Use, below: Callable[[bytes], _Use | None], children: list[bytes]) -> _Parent | None:
        """What `above` holds beyond the children's totals; None when nothing, or when a child could not be understood."""
        charged = []
        for child in children:
            use = below(child)
            if child in self._garbled:
                return None
            if use is not None and any(use):
                charged.append(child)
                above = _minus(above, use)
        residual = tuple(max(value, 0) for value in above)
        return _Parent(residual, charged) if any(residual) else None


class _V1(_Reader):
    def __init__(self, host: Host, hierarchy: Hierarchy) -> None:
        super().__init__(host, hierarchy)
        self._below: dict[bytes, _Use] = {}

    def search(self, parents: Iterable[bytes] | None) -> dict[bytes, _Parent]:
        """Top down, entering only directories below which something is charged."""
        del parents
        found: dict[bytes, _Parent] = {}
        if self._total(b"/") is None and not self._garbled:
            raise OSError(errno.ENOENT, "no such file", self._hierarchy.place(b"/", b"memory.stat"))
        pending = [b"/"]
        while pending:
            path = pending.pop()
            beneath = self._below.pop(path, None)
            if beneath is None or not any(beneath):
                continue
            children = self._children(path)
            parent = self._residual(beneath, self._total, children)
            if parent:
                found[path] = parent
            pending.extend(children)
        return found

    def lower(self, path: bytes, parent: _Parent) -> _Parent | None:
        self._total(path)
        beneath = self._below.pop(path, None)
        if beneath is None:
            return None
        return _lower_of(parent, self._residual(beneath, self._total, parent.charged_children))

    def _total(self, path: bytes) -> _Use | None:
        """A directory's hierarchical figure; what of it lies beneath is remembered for when it is entered."""
        values = self._values(path)
        if values is None:
            return None
        own, total = _v1_use(values, b""), _v1_use(values, b"total_")
        if own is None or total is None:
            self._garbled.add(path)
            return None
        self.has_swap &= b"total_swap" in values
        self._below[path] = _minus(total, own)
        return total


class _V2(_Reader):
    def search(self, parents: Iterable[bytes] | None) -> dict[bytes, _Parent]:
        found: dict[bytes, _Parent] = {}
        for path in parents or ():
            total = self._total(path) if self._hands_memory_on(path) else None
            if total is None:
                self._unsplit.add(path)
                continue
            parent = self._residual(total, self._total, self._children(path))
            if parent:
                found[path] = parent
        return found

    def lower(self, path: bytes, parent: _Parent) -> _Parent | None:
        total = self._total(path)
        if total is None:
            return None
        return _lower_of(parent, self._residual(total, self._total, parent.charged_children))

    def _hands_memory_on(self, path: bytes) -> bool:
        """A cgroup that enables memory for its children has no process of its own, the root excepted."""
        if path == b"/":
            return False
        try:
            return b"memory" in self._host.read(self._hierarchy.place(path, b"cgroup.subtree_control")).split()
        except OSError:
            return False

    def _total(self, path: bytes) -> _Use | None:
        values = self._values(path)
        if values is None:
            return None
        use = _v2_use(values, self._swap(path))
        if use is None:
            self._garbled.add(path)
        return use

    def _swap(self, path: bytes) -> int | None:
        try:
            swap = number(self._host.read(self._hierarchy.place(path, b"memory.swap.current")))
        except OSError:
            swap = None
        self.has_swap &= swap is not None
        return swap


def _v1_use(values: dict[bytes, bytes], prefix: bytes) -> _Use | None:
    try:
        shmem = int(values[prefix + b"shmem"])
        use = (
            int(values[prefix + b"cache"]) - shmem,
            shmem,
            int(values[prefix + b"rss"]),
            int(values[prefix + b"unevictable"]),
        )
        swap = values.get(prefix + b"swap")
        return use if swap is None else (*use, int(swap))
    except (KeyError, ValueError):
        return None


def _v2_use(values: dict[bytes, bytes], swap: int | None) -> _Use | None:
    try:
        shmem = int(values[b"shmem"])
        use = (int(values[b"file"]) - shmem, shmem, int(values[b"anon"]), int(values[b"unevictable"]))
        return use if swap is None else (*use, swap)
    except (KeyError, ValueError):
        return None


def _minus(left: _Use, right: _Use) -> _Use:
    """Kind by kind; swap is left out of the result where either side does not have it."""
    return tuple(a - b for a, b in zip(left, right, strict=False))


def _lower_of(parent: _Parent, again: _Parent | None) -> _Parent | None:
    """The lower of two samples, kind by kind; None when nothing of it is left."""
    if again is None:
        return None
    residual = tuple(map(min, parent.residual, again.residual))
    return _Parent(residual, parent.charged_children) if any(residual) else None


def _memory_use(use: _Use) -> MemoryUse:
    file, shmem, anon, unevictable, *swap = use
    return MemoryUse(file, shmem, anon, swap[0] if swap else None, unevictable)
