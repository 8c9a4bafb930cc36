# SPDX-License-Identifier: Apache-2.0
"""Look for a window and judge what was seen: `doctor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zombiescope.analysis.scan import derive_scan
from zombiescope.diagnosis.case import Case, Observation
from zombiescope.diagnosis.engine import Diagnosis, diagnose
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.host.access import Host
from zombiescope.pipeline.cores import LOOKS_PER_SECOND, CoresWindow
from zombiescope.pipeline.scan import observe
from zombiescope.pipeline.starvation import StarvationWindow
from zombiescope.probes.readers.cgroup_census import read_census


class Examined(NamedTuple):
    case: Case
    diagnosis: Diagnosis


def examine(host: Host, seconds: float, progress: Callable[[float], None] = lambda _: None) -> Examined:
    """The doctor's window: a snapshot, a wait, and the census once more. `progress` is told the seconds that are over."""
    first = observe(host)
    observations = [first]
    cores, starvation = CoresWindow(host), StarvationWindow(host)
    _let_pass(host, seconds, (cores, starvation), progress)
    if isinstance(first.snapshot.hierarchy, Hierarchy):
        census = read_census(host, first.snapshot.hierarchy)
        later = first.snapshot._replace(census=census, taken_at=host.wall_clock())
        observations.append(Observation(later, derive_scan(later)))
    case = Case(tuple(observations), Thresholds(), cores=cores.seen(), **starvation.seen()._asdict())
    return Examined(case, diagnose(case))


def _let_pass(
    host: Host, seconds: float, watches: tuple[CoresWindow, StarvationWindow], progress: Callable[[float], None]
) -> None:
    """The cores are looked at ten times a second: a short stretch must not fall between two looks."""
    steps = max(round(seconds * LOOKS_PER_SECOND), 1)
    cores, starvation = watches
    cores.look()
    for step in range(1, steps + 1):
        host.wait(seconds / steps)
        cores.look()
        if step % LOOKS_PER_SECOND == 0:
            starvation.look()
        progress(seconds * step / steps)
