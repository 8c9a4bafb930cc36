# SPDX-License-Identifier: Apache-2.0
"""The lab's own account, `zombiescope.lab/1`: what was made, independent of every reader that is tested against it."""

from __future__ import annotations

import os
import platform
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown

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
        **stamp(),
        "gaps": [gap._asdict() for gap in truth.gaps],
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


def stamp() -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "schema": SCHEMA,
        "taken_at": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "host": {
            "name": shown(os.fsencode(os.uname().nodename)),
            "kernel": platform.release(),
            "boot_id": _line("/proc/sys/kernel/random/boot_id"),
            "uptime_seconds": _uptime(),
        },
    }


def _line(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _uptime() -> float | None:
    line = _line("/proc/uptime")
    return float(line.split()[0]) if line else None
