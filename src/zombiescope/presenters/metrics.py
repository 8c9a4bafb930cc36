# SPDX-License-Identifier: Apache-2.0
"""A moment of the agent as metric families. What is not available has no sample: absent is never zero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zombiescope import __version__
from zombiescope.analysis.growth import Growth
from zombiescope.analysis.ledger import by_label
from zombiescope.analysis.scan import Scan
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.finding import Verdict
from zombiescope.facts import metric_names as names
from zombiescope.facts.agent import HistogramSample, Moment, SweepTimes
from zombiescope.facts.cgroups import Hierarchy, Residuals
from zombiescope.facts.gap import Gap
from zombiescope.facts.metric_names import Metric

_KINDS = ("file", "shmem", "anon", "swap", "unevictable")


class Family(NamedTuple):
    metric: Metric
    samples: tuple[tuple[tuple[str, ...], float], ...]
    """Label values in the order of the metric's labels, and the value."""
    histograms: tuple[HistogramSample, ...] = ()


def render_families(moment: Moment, scan: Scan, diagnosis: Diagnosis, growth: Growth | Gap) -> list[Family]:
    found = [
        *_population(moment, scan),
        *_events(moment),
        *_growth(growth),
        *_measured(moment),
        Family(names.SWEEP, (), (_sweeps(moment.sweeps),)),
        Family(
            names.FINDING,
            tuple(((each.id, each.severity), 1) for each in diagnosis.findings if each.verdict is Verdict.PRESENT),
        ),
        Family(names.PROBE_SECONDS, tuple(((probe,), run.seconds) for probe, run in sorted(moment.probes.items()))),
        Family(
            names.PROBE_SUCCESS, tuple(((probe,), float(not run.gap)) for probe, run in sorted(moment.probes.items()))
        ),
        Family(names.BUILD, (((__version__,), 1),)),
        Family(names.NODE, ((_node(moment), 1),)),
    ]
    return [family for family in found if family.samples or family.histograms]


def _sweeps(times: SweepTimes) -> HistogramSample:
    return HistogramSample(
        names.SWEEP, (), names.SWEEP_BUCKETS, tuple(map(float, times.buckets)), times.sweeps, times.seconds
    )


def _population(moment: Moment, scan: Scan) -> Iterator[Family]:
    if moment.look is not None:
        yield _one(names.COUNTED, moment.look.counted)
        yield _one(names.LIVE, moment.look.live)
        yield _one(names.ZOMBIES, moment.look.zombies)
    residuals = moment.snapshot.residuals
    if isinstance(residuals, Residuals):
        uses = [use for path, use in residuals.by_parent.items() if path not in residuals.unsplit]
        sums = {kind: [getattr(use, kind) for use in uses if getattr(use, kind) is not None] for kind in _KINDS}
        yield Family(
            names.ZOMBIE_BYTES, tuple(((kind,), sum(values)) for kind, values in sums.items() if values or not uses)
        )
    if not isinstance(scan.kernel_cost, Gap):
        yield _one(names.KERNEL_BYTES, scan.kernel_cost.total_bytes)


def _events(moment: Moment) -> Iterator[Family]:
    if moment.total is not None:
        yield _one(names.BIRTHS, moment.total.births)
        yield _one(names.DEATHS, moment.total.deaths)
        if moment.has_releases:
            yield _one(names.RELEASES, moment.total.releases)
    if moment.lost is not None:
        yield _one(names.EVENTS_LOST, moment.lost)
    if moment.makers is not None:
        yield Family(names.MAKER_ZOMBIES, tuple(((maker,), count) for maker, count in by_label(moment.makers).items()))


def _growth(growth: Growth | Gap) -> Iterator[Family]:
    if isinstance(growth, Gap) or growth.total is None:
        return
    yield _one(names.GROWTH, growth.total.slope.per_second)
    if growth.forecasts:
        yield _one(names.THRESHOLD, growth.forecasts[0].soonest_seconds)


def _measured(moment: Moment) -> Iterator[Family]:
    """What the light probes tell, a family for each metric."""
    for metric in dict.fromkeys(sample.metric for sample in moment.measured):
        yield Family(metric, tuple((each.labels, each.value) for each in moment.measured if each.metric == metric))
    for metric in dict.fromkeys(sample.metric for sample in moment.histograms):
        yield Family(metric, (), tuple(each for each in moment.histograms if each.metric == metric))


def _one(metric: Metric, value: float) -> Family:
    return Family(metric, (((), value),))


def _node(moment: Moment) -> tuple[str, str, str, str]:
    """An empty label is none: of a node that is in no cluster the series is what it was."""
    identity, hierarchy = moment.snapshot.identity, moment.snapshot.hierarchy
    version = hierarchy.version if isinstance(hierarchy, Hierarchy) else "unknown"
    return identity.kernel or "unknown", version, moment.image, identity.cluster
