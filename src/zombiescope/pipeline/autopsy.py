# SPDX-License-Identifier: Apache-2.0
"""Every zombie by the best tier this host allows, reconciled with the plain counts: `autopsy`."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.analysis.autopsy import Autopsy, Body, Totals, derive_autopsy, derive_totals, with_pod_names
from zombiescope.facts.beside import Beside
from zombiescope.facts.cgroups import Residuals
from zombiescope.facts.gap import Gap
from zombiescope.facts.snapshot import Snapshot
from zombiescope.facts.zombies import Walk
from zombiescope.host.access import Host
from zombiescope.pipeline.evidence import Evidence, gather
from zombiescope.pipeline.mistyped import refuse_maker
from zombiescope.pipeline.opening import Progress
from zombiescope.probes.readers.node import read_identity, read_shape


class Dissected(NamedTuple):
    snapshot: Snapshot
    walk: Walk
    autopsy: Autopsy
    gaps: tuple[Gap, ...]
    beside: Beside


class Choice(NamedTuple):
    """Which zombies are wanted."""

    maker: str | None = None
    """A glob over makers."""
    older_than_seconds: float | None = None


ALL = Choice()
_UNUSED = Gap("cost", "an autopsy does not measure costs")


def dissect(host: Host, choice: Choice = ALL, progress: Progress = lambda _: None) -> Dissected:
    """One call returns the records."""
    seen = gather(host, progress) if host.is_live else _recalled(host, progress)
    counts = (seen.hierarchy, seen.census, seen.residuals)
    snapshot = Snapshot(seen.taken_at, host.label, read_identity(host), read_shape(host), *counts, *(_UNUSED,) * 2)
    residuals = seen.residuals if isinstance(seen.residuals, Residuals) else None
    autopsy = derive_autopsy(seen.walk, seen.population, residuals)
    refuse_maker(choice.maker, autopsy.bodies)
    wanted = chosen(autopsy, choice, seen.taken_at)
    if any(share.maker.startswith("pod:") for share in wanted.totals.by_maker):
        from zombiescope.probes.readers.pod_names import read_pod_names  # noqa: PLC0415 (most hosts have none)

        wanted = with_pod_names(wanted, read_pod_names(host))
    gaps = (*seen.gaps, *_gaps_of(autopsy, wanted, choice))
    return Dissected(snapshot, seen.walk, wanted, gaps, seen.beside)


def _gaps_of(every: Autopsy, wanted: Autopsy, choice: Choice) -> list[Gap]:
    """What a choice could not decide."""
    if wanted.totals.zombies is None:
        why = f"{every.totals.zombies:,} zombies could not be seen one by one: which are of that choice is not known"
        hint = "run as root, where BPF or /proc/kcore may be read"
        return [Gap(f"totals.{name}", why, hint) for name in ("zombies", "pages")]
    ageless = sum(body.zombie.born_at is None for body in every.bodies)
    if choice.older_than_seconds is None or not ageless:
        return []
    return [Gap("zombies[].born_at", f"{ageless:,} zombies whose birth is not known were left out")]


def _recalled(host: Host, progress: Progress) -> Evidence:
    """What a recording kept of an autopsy; where it kept none, what its plain files tell, and why there is no more."""
    from zombiescope.pipeline.kept_evidence import recall  # noqa: PLC0415 (a live host needs none of it)

    kept = recall(host)
    if isinstance(kept, Evidence):
        return kept
    seen = gather(host, progress)
    if not kept:
        return seen
    walk = seen.walk._replace(gaps=(Gap("zombies", kept, "run zombiescope on the host itself"), *seen.walk.gaps))
    return seen._replace(walk=walk)


def chosen(autopsy: Autopsy, choice: Choice, now: float) -> Autopsy:
    """Of all zombies those that are wanted."""
    if choice == ALL:
        return autopsy
    if not autopsy.bodies and autopsy.totals.zombies:
        return autopsy._replace(totals=Totals(None, None, {}, (), {}))
    bodies = tuple(body for body in autopsy.bodies if _is_wanted(body, choice, now))
    return autopsy._replace(bodies=bodies, totals=derive_totals(bodies))


def _is_wanted(body: Body, choice: Choice, now: float) -> bool:
    if choice.maker is not None:
        from fnmatch import fnmatchcase  # noqa: PLC0415 (most runs want all)

        if not fnmatchcase(body.maker, choice.maker):
            return False
    if choice.older_than_seconds is None:
        return True
    return body.zombie.born_at is not None and now - body.zombie.born_at >= choice.older_than_seconds
