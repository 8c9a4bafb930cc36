# SPDX-License-Identifier: Apache-2.0
"""Watch births, deaths and releases of a window by maker. A recording keeps what they come to."""

from __future__ import annotations

from zombiescope.analysis.ledger import Accounts
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, EventTier, FlowsSeen, Lifecycle, MakerFlow
from zombiescope.facts.plain import of_outcome, to_outcome
from zombiescope.facts.pods import POD_PREFIX
from zombiescope.host.access import Host, beside_recording
from zombiescope.host.live import LiveHost
from zombiescope.probes.readers.cgroup_lifecycle import Ledger, open_ledger
from zombiescope.watching.pods import names_now
from zombiescope.watching.watch import Quiet

FACT = "flows"
SECONDS_OF_AN_ORDINARY_DEATH = 1.0
_MOST_MAKERS = 50
_NOT_HERE = Gap(FACT, "nothing happens in a folder, and its recording kept no births and deaths", "run it on the host")
_GARBLED = Gap(FACT, "the recorded births and deaths are not in a form we know", "record the host again")


class FlowsWatch(Quiet):
    """Begins when it is made; `look` about once a second; then `seen`, which ends it."""

    def __init__(self, host: Host, hierarchy: Hierarchy | Gap) -> None:
        self._host, self._beside = host, beside_recording(host)
        self._start = host.monotonic()
        self._pods: dict[str, str] = {}
        self._accounts = Accounts(self._pods)
        self._tier, self._lost = "", 0
        self._ledger: Ledger | Gap = _NOT_HERE
        if isinstance(hierarchy, Gap):
            self._ledger = hierarchy.about(FACT)
        elif isinstance(self._beside, LiveHost):
            self._ledger = open_ledger(self._beside, hierarchy)

    def look(self) -> None:
        if not isinstance(self._ledger, Gap):
            self._take(self._ledger.read())

    def seen(self) -> FlowsSeen | Gap:
        outcome = self._host.experiment(FACT, lambda: to_outcome(self._outcome()))
        return _NOT_HERE if outcome is None else of_outcome(outcome, FlowsSeen, _GARBLED)

    def close(self) -> None:
        if not isinstance(self._ledger, Gap):
            self._ledger.close()

    def _outcome(self) -> FlowsSeen | Gap:
        ledger = self._ledger
        if isinstance(ledger, Gap):
            return ledger
        self.look()
        self._name_pods()
        seconds, counts = self._host.monotonic() - self._start, dict(self._accounts.counts)
        if any(each.balance > 0 for each in counts.values()):
            self._beside.wait(SECONDS_OF_AN_ORDINARY_DEATH)  # those on their way arrive meanwhile
            self.look()
        later = self._accounts.counts
        can_release = ledger.tier is not EventTier.POLLING
        flows = [
            MakerFlow(maker, each.births, each.deaths, _released(each, later[maker]) if can_release else None)
            for maker, each in counts.items()
        ]
        self.close()
        flows.sort(key=lambda flow: (-(flow.left or 0), -flow.deaths, flow.maker))
        return FlowsSeen(self._host.wall_clock(), seconds, str(ledger.tier), tuple(flows[:_MOST_MAKERS]), self._lost)

    def _name_pods(self) -> None:
        """Births come before a pod's logs: what was booked by its uid is its workload's."""
        if any(maker.startswith(POD_PREFIX) for maker in self._accounts.counts):
            self._pods.update(names_now(self._beside).makers)
            self._accounts.rename({f"{POD_PREFIX}{uid}": maker for uid, maker in self._pods.items()})

    def _take(self, events: Lifecycle) -> None:
        self._accounts.add(events.flows, events.other)
        self._lost = events.lost or 0 if events.lost is not None else self._lost


def _released(then: Counts, later: Counts) -> int:
    """Of those that had died when the window ended: whoever died after it was released after it, too."""
    return max(later.releases - (later.deaths - then.deaths), then.releases)
