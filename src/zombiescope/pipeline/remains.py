# SPDX-License-Identifier: Apache-2.0
"""After the doctor's window: the census again, and every zombie by the best tier. A recording keeps what the latter come to."""

from __future__ import annotations

from typing import Any

from zombiescope.analysis.autopsy import Autopsy
from zombiescope.analysis.remains import derive_remains
from zombiescope.analysis.scan import derive_scan
from zombiescope.diagnosis.case import Case, Observation
from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.remains import MakerRemains, PinExample, Remains
from zombiescope.facts.zombies import Tier
from zombiescope.host.access import Host, beside_recording
from zombiescope.host.live import LiveHost
from zombiescope.probes.readers.cgroup_census import read_census

FACT = "remains"
_NOT_HERE = Gap(
    FACT, "a folder does not hold the kernel's memory, and no recording kept an autopsy", "run it on the host"
)
_GARBLED = Gap(FACT, "the recorded autopsy is not in a form we know", "record the host again")


class Examination:
    """Also holds the autopsy itself, where it was done here: a plan names files."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._since = 0.0
        self.autopsy: Autopsy | None = None

    def fill(self, case: Case) -> Case:
        snapshot = case.first.snapshot
        if isinstance(snapshot.hierarchy, Gap):
            return case
        self._since = snapshot.taken_at
        census = read_census(self._host, snapshot.hierarchy)
        later = snapshot._replace(census=census, taken_at=self._host.wall_clock())
        outcome = self._host.experiment(FACT, self._dissect)
        return case._replace(
            observations=(*case.observations, Observation(later, derive_scan(later))),
            remains=_NOT_HERE if outcome is None else _checked(outcome),
        )

    def _dissect(self) -> dict[str, Any]:
        from zombiescope.pipeline.autopsy import dissect  # noqa: PLC0415 (a replay does not pay for it)

        machine = beside_recording(self._host)
        if not isinstance(machine, LiveHost):
            return {"gap": list(_NOT_HERE)}
        try:
            found = dissect(machine)
        except ObservationError as error:
            return {"gap": [FACT, error.why, error.hint]}
        if found.walk.tier in (Tier.PAGES, Tier.RESIDUAL):
            gap = next((gap for gap in found.walk.gaps if gap.fact == "zombies"), None)
            why = gap.reason if gap else "no tier saw the zombies one by one"
            return {"gap": [FACT, why, gap.hint if gap else "zombiescope autopsy (as root)"]}
        self.autopsy = found.autopsy
        remains = derive_remains(found.autopsy.bodies, found.walk.tier.value, self._host.wall_clock(), self._since)
        return _plain(remains)


def _plain(remains: Remains) -> dict[str, Any]:
    return {
        "at": remains.at,
        "tier": remains.tier,
        "zombies": remains.zombies,
        "makers": [[*maker[:2], dict(maker.by_pin), *maker[3:5], dict(maker.parents)] for maker in remains.makers],
        "by_pin": dict(remains.by_pin),
        "actions": {kind: dict(actions) for kind, actions in remains.actions.items()},
        "examples": [list(example) for example in remains.examples],
        "parents": dict(remains.parents),
        "lately": dict(remains.lately),
    }


def _checked(outcome: dict[str, Any]) -> Remains | Gap:
    """A recording comes from a stranger."""
    try:
        if "gap" in outcome:
            return Gap(*map(str, outcome["gap"]))
        makers = [
            MakerRemains(str(maker), int(zombies), _counts(pins), _time(first), _time(last), _counts(parents))
            for maker, zombies, pins, first, last, parents in outcome["makers"]
        ]
        return Remains(
            float(outcome["at"]),
            str(outcome["tier"]),
            int(outcome["zombies"]),
            tuple(makers),
            _counts(outcome["by_pin"]),
            {str(kind): _counts(actions) for kind, actions in outcome["actions"].items()},
            tuple(PinExample(*map(str, example)) for example in outcome["examples"]),
            _counts(outcome.get("parents", {})),
            _counts(outcome.get("lately", {})),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return _GARBLED


def _counts(said: dict[str, Any]) -> dict[str, int]:
    return {str(name): int(count) for name, count in said.items()}


def _time(said: object) -> float | None:
    return None if said is None else float(said)  # type: ignore[arg-type]
