# SPDX-License-Identifier: Apache-2.0
"""The same case on a slower or a faster machine: every time in it longer or shorter, every count and share as it was.

`all_times` stretches the window with what happened in it; `machine` only what the kernel took for its own work, in the same window.
"""

from __future__ import annotations

from typing import Any

from zombiescope.analysis.scan import derive_scan
from zombiescope.diagnosis.case import Case, Observation
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ReclaimSeen


def all_times(case: Case, factor: float) -> Case:
    """Times in the kernel's log and the ages of zombies stay: they are older than the window."""
    changed: dict[str, Any] = {field: _stretched(getattr(case, field), factor) for field in _STRETCHED}
    return machine(case, factor)._replace(
        observations=_looks(case, factor, with_window=True),
        reclaim=_reclaim(case.reclaim, factor, window=factor),
        **changed,
    )


def machine(case: Case, factor: float) -> Case:
    return case._replace(
        observations=_looks(case, factor, with_window=False), reclaim=_reclaim(case.reclaim, factor, window=1.0)
    )


_STRETCHED = ("cores", "services", "real_time", "softirq", "sweepers", "pressure", "flows", "growth")
_SECONDS = frozenset(
    {
        "seconds", "every_seconds", "longest_seconds", "waited_seconds", "user_seconds", "system_seconds", "user", "nice", "system",
        "idle", "iowait", "irq", "softirq_time", "steal", "guest", "lost", "window_seconds", "soonest_seconds", "latest_seconds",
    }
)  # fmt: skip
_COUNTED_TIMES = frozenset({"CoreTime"})
_PER_SECOND = {"Slope": frozenset({"per_second", "low", "high"})}
"""By record: what becomes less where times become longer."""


def _stretched(fact: Any, factor: float) -> Any:
    """Every field that is a length of time, in records within records."""
    if isinstance(fact, Gap) or not isinstance(fact, tuple):
        return fact
    if not hasattr(fact, "_fields"):
        return tuple(_stretched(each, factor) for each in fact)
    changed: dict[str, Any] = {}
    for name, value in zip(fact._fields, fact, strict=True):
        is_time = name in _SECONDS if type(fact).__name__ not in _COUNTED_TIMES else True
        if is_time and isinstance(value, int | float) and not isinstance(value, bool):
            changed[name] = value * factor
        elif name in _PER_SECOND.get(type(fact).__name__, ()):
            changed[name] = value / factor
        else:
            changed[name] = _stretched(value, factor)
    return type(fact)(**changed)


def _looks(case: Case, factor: float, *, with_window: bool) -> tuple[Observation, ...]:
    end, found = case.last.snapshot.taken_at, []
    for look in case.observations:
        seen = look.snapshot
        sweep = seen.sweep
        if not isinstance(sweep, Gap):
            sweep = sweep._replace(seconds=sweep.seconds * factor, slowest_seconds=sweep.slowest_seconds * factor)
        at = end - (end - seen.taken_at) * factor if with_window else seen.taken_at
        seen = seen._replace(sweep=sweep, taken_at=at)
        found.append(Observation(seen, derive_scan(seen)))
    return tuple(found)


def _reclaim(seen: ReclaimSeen | Gap, factor: float, window: float) -> ReclaimSeen | Gap:
    if isinstance(seen, Gap):
        return seen
    kinds = tuple(
        kind._replace(
            seconds=kind.seconds * factor,
            cpu_seconds=kind.cpu_seconds * factor,
            longest_seconds=kind.longest_seconds * factor,
        )
        for kind in seen.kinds
    )
    groups = tuple(group._replace(cpu_seconds=group.cpu_seconds * factor) for group in seen.groups)
    return seen._replace(seconds=seen.seconds * window, kinds=kinds, groups=groups)
