# SPDX-License-Identifier: Apache-2.0
"""Look for a window and judge what was seen: `doctor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from zombiescope.diagnosis.case import NO_HISTORY, Case
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.pipeline.remains import Examination
from zombiescope.pipeline.scan import USUAL, growth_of, observe
from zombiescope.watching.flows import FlowsWatch
from zombiescope.watching.services import Live
from zombiescope.watching.watch import judge
from zombiescope.watching.window import Scene, Window, let_pass

if TYPE_CHECKING:
    from zombiescope.analysis.autopsy import Autopsy
    from zombiescope.diagnosis.audit import Audit
    from zombiescope.facts.units import UnitFiles


class Examined(NamedTuple):
    case: Case
    diagnosis: Diagnosis
    autopsy: Autopsy | None = None
    """Every zombie, where they could be seen one by one here and now."""
    judged: tuple[Audit, UnitFiles] | None = None
    """Every service, where they could be asked here and now."""


def examine(  # noqa: PLR0913 (what to look at, for how long, and what is known already)
    host: Host,
    seconds: float,
    progress: Callable[[float], None] = lambda _: None,
    state: bytes | None = None,
    *,
    believe_lab: bool = False,
    thresholds: Thresholds = USUAL,
    flows: FlowsWatch | None = None,
) -> Examined:
    """A snapshot, a window in which much is watched at once, the census and an autopsy after it. `progress` is told the seconds
    that are over; `state` is where an agent may keep a history of this host; `flows`: births and deaths that were watched from
    before."""
    first = observe(host)
    hierarchy = first.snapshot.hierarchy
    parents = () if isinstance(first.scan.parents, Gap) else [share.path for share in first.scan.parents]
    judged: list[tuple[Audit, UnitFiles]] = []

    def audit(live: Live) -> tuple[Audit, UnitFiles]:
        from zombiescope.pipeline.audit import audit_of_window  # noqa: PLC0415 (a replay does not pay for it)

        judged.append(audit_of_window(live))
        return judged[-1]

    window = Window(Scene(host, hierarchy, host.wall_clock(), audit, parents, believe_lab, flows))
    window.look()
    let_pass(host, seconds, window.look, progress)
    growth = growth_of(host, state, thresholds) if state is not None and host.label == "this host" else NO_HISTORY
    afterwards = Examination(host)
    found = judge(Case((first,), thresholds, growth), [*window.watched, afterwards])
    return Examined(found.case, found.diagnosis, afterwards.autopsy, judged[-1] if judged else None)
