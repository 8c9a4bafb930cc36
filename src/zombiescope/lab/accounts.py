# SPDX-License-Identifier: Apache-2.0
"""What the kernel itself says is dead below a cgroup of ours: a count on v2, bytes on v1."""

from __future__ import annotations

from pathlib import Path

from zombiescope.lab.hierarchy import MemoryHierarchy

_V1_KINDS = ("cache", "rss", "swap")
_DYING = ("nr_dying_subsys_memory", "nr_dying_descendants")


def dead_count(hierarchy: MemoryHierarchy, path: str) -> int | None:
    """Zombies below `path`, self excluded; None where the kernel does not count them (v1)."""
    if not hierarchy.is_unified:
        return None
    facts = _numbers(hierarchy.file(path, "cgroup.stat"))
    for name in _DYING:
        if name in facts:
            return facts[name]
    return None


def dead_bytes(hierarchy: MemoryHierarchy, path: str) -> int | None:
    """v1: bytes charged below `path` that no live cgroup owns. The kernel's figures may be two seconds old."""
    if hierarchy.is_unified:
        return None
    own = _numbers(hierarchy.file(path, "memory.stat"))
    if not own:
        return None
    dead = sum(own.get(f"total_{kind}", 0) - own.get(kind, 0) for kind in _V1_KINDS)
    for name in hierarchy.children(path):
        child = _numbers(hierarchy.file(f"{path}/{name}", "memory.stat"))
        dead -= sum(child.get(f"total_{kind}", 0) for kind in _V1_KINDS)
    return max(dead, 0)


def dead_below(hierarchy: MemoryHierarchy, path: str) -> str:
    """What is dead and held, in words; empty for nothing."""
    count = dead_count(hierarchy, path)
    if count:
        return f"{count} zombies"
    held = dead_bytes(hierarchy, path)
    return f"{held} bytes of zombies" if held else ""


def _numbers(path: str) -> dict[str, int]:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
