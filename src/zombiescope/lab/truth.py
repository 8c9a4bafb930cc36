# SPDX-License-Identifier: Apache-2.0
"""The lab's own account, `zombiescope.lab/1`: what was made, independent of every reader that is tested against it."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.lab.hierarchy import MemoryHierarchy

SCHEMA = "zombiescope.lab/1"


@dataclass(frozen=True, slots=True)
class Made:
    id: int
    """Inode of its directory, which is the kernel's id of the cgroup."""
    path: str
    pin: str
    file: str | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Truth:
    run: str
    subtree: str
    hierarchy: str
    action: str
    made: tuple[Made, ...]
    visible: bool = False
    """Directories left in place instead of zombies."""
    seen: int | None = None
    """Zombies the kernel itself counts below the subtree, where it does."""
    seconds: float = 0.0
    note: str = ""
    gaps: tuple[Gap, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)


def truth_document(truth: Truth) -> dict[str, Any]:
    counts = Counter(made.pin for made in truth.made)
    return {
        **stamp(truth.gaps),
        "action": truth.action,
        "run": truth.run,
        "hierarchy": truth.hierarchy,
        "subtree": truth.subtree,
        "seconds": round(truth.seconds, 3),
        "counts": {
            "made": len(truth.made),
            "zombies": _zombies(truth),
            "visible": len(truth.made) if truth.visible else 0,
            "bytes": sum(made.bytes for made in truth.made),
            "by_pin": dict(counts),
            "seen_by_kernel": truth.seen,
        },
        "note": truth.note or None,
        **truth.more,
        "made": [asdict(made) for made in truth.made],
    }


def _zombies(truth: Truth) -> int:
    """What was made, unless the kernel says that fewer became zombies: newer ones let some kinds go."""
    if truth.visible:
        return 0
    return len(truth.made) if truth.seen is None else min(truth.seen, len(truth.made))


def stamp(gaps: Sequence[Gap] = ()) -> dict[str, Any]:
    """The beginning of every document of the lab: when, where, and what could not be told."""
    now = datetime.now(UTC)
    told = {"boot_id": _line(_BOOT_ID), "uptime_seconds": _uptime()}
    unread = [Gap(f"host.{name}", f"{_PLACES[name]} cannot be read") for name, value in told.items() if value is None]
    return {
        "schema": SCHEMA,
        "taken_at": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "host": {
            "name": shown(os.fsencode(os.uname().nodename)),
            "kernel": platform.release(),
            **told,
        },
        "gaps": [gap._asdict() for gap in (*unread, *gaps)],
    }


_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_UPTIME = "/proc/uptime"
_PLACES = {"boot_id": _BOOT_ID, "uptime_seconds": _UPTIME}


def _line(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _uptime() -> float | None:
    line = _line(_UPTIME)
    return float(line.split()[0]) if line else None


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


class Stage(NamedTuple):
    name: str
    seconds: float
    told: str
    figures: dict[str, Any]
    outputs: dict[str, str] = {}  # noqa: RUF012 (nobody writes to it)
    """What our own commands printed, by what was typed."""


class Setting(NamedTuple):
    command: str
    """As a person types it again."""
    kernel: str
    hierarchy: str
    cpus: int
    load: float
    """Of the last minute, when it began: times of a busy machine are no times."""
    who: str
    where: str = "this host, in the lab's own subtree"


def account_of(setting: Setting, stages: Sequence[Stage]) -> str:
    total = sum(stage.seconds for stage in stages)
    where = f"{setting.where}; Linux {setting.kernel}, memory on cgroup {setting.hierarchy}, {setting.cpus} CPUs"
    lines = [
        "# The incident, reproduced and healed",
        "",
        f"Written by `{setting.command}`: what the run did and what it printed, nothing added.",
        "",
        f"* where: {where}, load {setting.load:.1f} when it began",
        "* the cause: an unused agent crash-loops; each life leaves one file on a tmpfs, and its page keeps a dead memory cgroup",
        f"* who: {setting.who}",
        "* who suffers: a neighbour that reads a file on one core, under a limit on the parent that holds the dead",
        f"* how long: {total:.0f} s in all",
        "",
        "| stage | seconds | what was seen |",
        "|---|---|---|",
        *(f"| {stage.name} | {stage.seconds:.1f} | {_cell(stage.told)} |" for stage in stages),
    ]
    for stage in stages:
        for typed, output in stage.outputs.items():
            lines += ["", f"## `{typed}`", "", "```"]
            lines += [line.rstrip() for line in output.strip("\n").splitlines()] + ["```"]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
