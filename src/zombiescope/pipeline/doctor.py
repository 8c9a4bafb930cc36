# SPDX-License-Identifier: Apache-2.0
"""Look for a window and judge what was seen: `doctor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from zombiescope import pipeline
from zombiescope.analysis.autopsy import Autopsy
from zombiescope.analysis.held import derive_remains
from zombiescope.analysis.maker import fold_flows
from zombiescope.analysis.scan import derive_scan
from zombiescope.diagnosis.case import NO_HISTORY, Case, Observation
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import FlowsSeen
from zombiescope.facts.plain import of_outcome, to_outcome
from zombiescope.facts.zombies import Remains, Tier
from zombiescope.host.access import Host, beside_recording
from zombiescope.host.live import LiveHost
from zombiescope.pipeline.scan import USUAL, growth_of, observe
from zombiescope.probes.readers.cgroup_census import read_census
from zombiescope.watching.cgroups import FlowsWatch
from zombiescope.watching.pods import PodsWatch
from zombiescope.watching.services import Live
from zombiescope.watching.watch import Filling, judge
from zombiescope.watching.window import Scene, Window, let_pass

if TYPE_CHECKING:
    from zombiescope.diagnosis.audit import Audit
    from zombiescope.facts.units import UnitFiles
    from zombiescope.pipeline.autopsy import Dissected

FACT = "remains"
_NOT_HERE = Gap(
    FACT, "a folder does not hold the kernel's memory, and no recording kept an autopsy", "run it on the host"
)
_GARBLED = Gap(FACT, "the recorded autopsy is not in a form we know", "record the host again")


class Examination(Filling):
    """Also holds the autopsy itself, where it was done here: a plan names files."""

    def __init__(self, host: Host, state: bytes | None = None) -> None:
        self._host, self._state = host, state
        self._since = 0.0
        self.dissected: Dissected | None = None

    @property
    def autopsy(self) -> Autopsy | None:
        return self.dissected.autopsy if self.dissected else None

    def fill(self, case: Case) -> Case:
        snapshot = case.first.snapshot
        if isinstance(snapshot.hierarchy, Gap):
            return case
        self._since = snapshot.taken_at
        later = snapshot._replace(census=read_census(self._host, snapshot.hierarchy), taken_at=self._host.wall_clock())
        outcome = self._host.experiment(FACT, lambda: to_outcome(self._dissect()))
        remains = _NOT_HERE if outcome is None else of_outcome(outcome, Remains, _GARBLED)
        known = () if isinstance(remains, Gap) else (left.maker for left in remains.makers)
        return case._replace(
            observations=(*case.observations, Observation(later, derive_scan(later))),
            remains=remains,
            flows=fold_flows(case.flows, known) if isinstance(case.flows, FlowsSeen) else case.flows,
        )

    def _dissect(self) -> Remains | Gap:
        machine = beside_recording(self._host)
        if not isinstance(machine, LiveHost):
            return _NOT_HERE
        try:
            found = pipeline.autopsy.dissect(machine, state=self._state)
        except ObservationError as error:
            return Gap(FACT, error.why, error.hint)
        if found.walk.tier in (Tier.PAGES, Tier.RESIDUAL):
            gap = next((gap for gap in found.walk.gaps if gap.fact == "zombies"), None)
            why = gap.reason if gap else "no tier saw the zombies one by one"
            return Gap(FACT, why, gap.hint if gap else "sudo zombiescope autopsy")
        self.dissected = found
        return derive_remains(found.autopsy.bodies, found.walk.tier.value, self._host.wall_clock(), self._since)


class Examined(NamedTuple):
    case: Case
    diagnosis: Diagnosis
    autopsy: Autopsy | None = None
    """Every zombie, where they could be seen one by one here and now."""
    judged: tuple[Audit, UnitFiles] | None = None
    """Every service, where they could be asked here and now."""
    dissected: Dissected | None = None
    """The whole of which `autopsy` is a part."""


def examine(  # noqa: PLR0913 (what to look at, for how long, and what is known already)
    host: Host,
    seconds: float,
    progress: Callable[[float], None] = lambda _: None,
    state: bytes | None = None,
    *,
    believe_lab: bool = False,
    thresholds: Thresholds = USUAL,
    flows: FlowsWatch | None = None,
    pods: PodsWatch | None = None,
) -> Examined:
    """A snapshot, a window in which much is watched at once, the census and an autopsy after it. `progress` is told the seconds
    that are over; `state` is where an agent may keep a history of this host; `flows`, `pods`: what was watched
    from before."""
    first = observe(host)
    hierarchy = first.snapshot.hierarchy
    parents = () if isinstance(first.scan.parents, Gap) else [share.path for share in first.scan.parents]
    judged: list[tuple[Audit, UnitFiles]] = []

    def audit(live: Live) -> tuple[Audit, UnitFiles]:
        judged.append(pipeline.audit.audit_of_window(live))
        return judged[-1]

    window = Window(Scene(host, hierarchy, host.wall_clock(), audit, parents, believe_lab, flows, pods))
    window.look()
    let_pass(host, seconds, window.look, progress)
    growth = growth_of(host, state, thresholds) if state is not None and host.is_live else NO_HISTORY
    afterwards = Examination(host, state)
    found = judge(Case((first,), thresholds, growth), [*window.watched, afterwards])
    services = judged[-1] if judged else None
    return Examined(found.case, found.diagnosis, afterwards.autopsy, services, afterwards.dissected)
