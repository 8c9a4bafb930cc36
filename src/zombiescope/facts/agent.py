# SPDX-License-Identifier: Apache-2.0
"""What the agent knows at one moment: the latest of every fact, or its gap. Immutable: the next moment is another one."""

from collections.abc import Mapping
from typing import NamedTuple

from zombiescope.facts.cgroups import Look, Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, EventTier, Histogram
from zombiescope.facts.metric_names import Metric
from zombiescope.facts.pods import Pod


class ProbeRun(NamedTuple):
    seconds: float
    gap: Gap | None


class MetricSample(NamedTuple):
    metric: Metric
    labels: tuple[str, ...]
    """Values, in the order of the metric's labels."""
    value: float


class HistogramSample(NamedTuple):
    """As Prometheus has them, since the agent began."""

    metric: Metric
    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    at_most: tuple[float, ...]
    """How many were at most each bound."""
    all: float
    seconds: float
    """Together."""


class Occurrence(NamedTuple):
    """Something that happened once, as the history keeps it."""

    at: float
    """Seconds since the epoch."""
    what: str
    detail: str


class Reading(NamedTuple):
    """What a light probe tells at one moment. Counters count since the agent began."""

    samples: tuple[MetricSample, ...] = ()
    """What is not available is left out."""
    remembered: Mapping[str, float] = {}
    """Series of the history by name: raw numbers."""
    gap: Gap | None = None
    """Why something is missing."""
    happened: tuple[Occurrence, ...] = ()
    """Events for the history, since the reading before."""
    histograms: tuple[HistogramSample, ...] = ()
    pods: tuple[Pod, ...] = ()
    """Of this node now: their names are remembered."""
    containers: tuple[tuple[str, str], ...] = ()
    """Ids of containers, each with its name."""


class UnitRestarts(NamedTuple):
    """Of a unit that systemd restarted at least once."""

    name: str
    restarts: int
    is_waiting: bool
    """Between two restarts."""


class SweepTimes(NamedTuple):
    """How many sweeps took at most each bound of `metric_names.SWEEP_BUCKETS`, how many in all, and how long together."""

    buckets: tuple[int, ...]
    sweeps: int
    seconds: float


class Moment(NamedTuple):
    snapshot: Snapshot
    look: Look | None
    """The lower of the last two looks."""
    tier: EventTier | None
    total: Counts | None
    """Births, deaths and releases since the agent began; None where no tier was available."""
    has_releases: bool
    lost: int | None
    makers: Mapping[str, int] | None
    """Zombies by maker; None before the backlog is known."""
    sweeps: SweepTimes
    probes: Mapping[str, ProbeRun]
    image: str
    lifetimes: Histogram = Histogram()
    zombie_times: Histogram = Histogram()
    measured: tuple[MetricSample, ...] = ()
    """By the light probes."""
    event_gaps: tuple[Gap, ...] = ()
    """Why events are not seen by a better tier, and what this one cannot tell."""
    histograms: tuple[HistogramSample, ...] = ()
    """By the light probes."""
