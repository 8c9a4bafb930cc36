# SPDX-License-Identifier: Apache-2.0
"""Every call of reclaim in a window, timed by the kernel's own begin and end (BPF). A recording keeps what was told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zombiescope.errors import ObservationError
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Histogram
from zombiescope.facts.names import shown
from zombiescope.facts.reclaim import ReclaimCalls, ReclaimGroup, ReclaimKind, ReclaimSeen
from zombiescope.host.access import Host, beside_recording
from zombiescope.kernel.bpf_reclaim import ReclaimPasses
from zombiescope.probes.kernel_text import refusal

_LIMITS = (b"memory.max", b"memory.high", b"memory.limit_in_bytes")
_UNLIMITED_BYTES = 1 << 62
"""v1 writes the largest number of whole pages where there is none."""


def named_groups(host: Host, hierarchy: Hierarchy, groups: Mapping[int, tuple[int, int, float]]) -> list[list[Any]]:
    """Plain JSON: path, the limited ones at and above it, calls, pages, seconds on a core; the dearest first."""
    if not groups:
        return []
    paths = _paths(host, hierarchy, set(groups))
    limited: dict[bytes, bool] = {}
    rows = []
    for number, (calls, pages, seconds) in sorted(groups.items(), key=lambda each: -each[1][2]):
        path = paths.get(number)
        if path is None:
            continue
        above = [place for place in _at_and_above(path) if _is_limited(host, hierarchy, place, limited)]
        rows.append([shown(path), [shown(place) for place in above], calls, pages, seconds])
    return rows


def _paths(host: Host, hierarchy: Hierarchy, wanted: set[int]) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    try:
        paths = host.directories(hierarchy.place(b"/")).paths
    except OSError:
        return found
    for path in paths:
        try:
            inode = host.inode(hierarchy.place(path))
        except OSError:
            continue
        if inode in wanted:
            found[inode] = path
            if len(found) == len(wanted):
                break
    return found


def _at_and_above(path: bytes) -> list[bytes]:
    """Without the root, which has no limit."""
    parts = path.strip(b"/").split(b"/") if path != b"/" else []
    return [b"/" + b"/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]


def _is_limited(host: Host, hierarchy: Hierarchy, path: bytes, known: dict[bytes, bool]) -> bool:
    if path not in known:
        known[path] = any(_limit(host, hierarchy.place(path, name)) for name in _LIMITS)
    return known[path]


def _limit(host: Host, file: bytes) -> bool:
    try:
        text = host.read(file).strip()
    except OSError:
        return False
    return text.isdigit() and int(text) < _UNLIMITED_BYTES


FACT = "reclaim"
_PRESENCE = b"/proc/vmstat"
_NOT_HERE = Gap(FACT, "nothing happens in a folder, and its recording kept no reclaim", "run it on the live host")


class ReclaimWindow:
    def __init__(self, host: Host, hierarchy: Hierarchy | Gap | None = None) -> None:
        """`hierarchy`: where the cgroups of those that reclaim are looked up; without it nobody is named."""
        self._host, self._hierarchy = host, hierarchy
        self._watch = _begin(host)

    def look(self) -> None:
        """The kernel counts by itself."""

    def seen(self) -> ReclaimSeen | Gap:
        """Of the window so far."""
        watch = self._watch
        if isinstance(watch, Gap) and watch.reason.startswith(_PRESENCE.decode()):
            return watch
        outcome = self._host.experiment("reclaim_passes", lambda: self._told(watch))
        return _NOT_HERE if outcome is None else _checked(outcome)

    def _told(self, watch: ReclaimPasses | Gap) -> dict[str, Any]:
        if isinstance(watch, Gap):
            return {"gap": list(watch)}
        told = watch.read()
        if isinstance(self._hierarchy, Hierarchy):
            told["groups"] = named_groups(beside_recording(self._host), self._hierarchy, watch.groups())
        return told

    def close(self) -> None:
        if isinstance(self._watch, ReclaimPasses):
            self._watch.close()


def _begin(host: Host) -> ReclaimPasses | Gap:
    try:
        host.read(_PRESENCE)
    except OSError as error:
        return refusal(FACT, _PRESENCE, error)
    if not host.is_live:
        return _NOT_HERE
    try:
        return ReclaimPasses(host.wall_clock)
    except ObservationError as error:
        return Gap(FACT, error.why, error.hint)


def _checked(outcome: dict[str, Any]) -> ReclaimSeen | Gap:
    """A recording comes from a stranger."""
    try:
        if "gap" in outcome:
            return Gap(*(str(word) for word in outcome["gap"]))
        kinds = tuple(_calls(kind, outcome["kinds"][kind]) for kind in ReclaimKind)
        groups = tuple(_group(*plain) for plain in outcome.get("groups", ()))
        return ReclaimSeen(float(outcome["seconds"]), kinds, int(outcome["unseen"]), groups)
    except (KeyError, TypeError, ValueError, AttributeError):
        return Gap(FACT, "the recorded reclaim is not in a form we know", "record the host again")


def _calls(kind: ReclaimKind, plain: Any) -> ReclaimCalls:
    calls, fruitless, pages, seconds, cpu, longest, when, buckets = plain
    return ReclaimCalls(
        kind, int(calls), int(fruitless), int(pages), float(seconds), float(cpu), float(longest),
        None if when is None else float(when), Histogram(tuple(int(count) for count in buckets)),
    )  # fmt: skip


def _group(path: Any, limits: Any, calls: Any, pages: Any, cpu_seconds: Any) -> ReclaimGroup:
    return ReclaimGroup(str(path), tuple(str(limit) for limit in limits), int(calls), int(pages), float(cpu_seconds))
