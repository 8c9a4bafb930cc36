# SPDX-License-Identifier: Apache-2.0
"""Read what the agent remembers and put it in numbers: `history`, and the growth of a `scan`."""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from zombiescope import history
from zombiescope.analysis.growth import Growth
from zombiescope.analysis.recall import (
    ALL,
    UPTIME,
    Recall,
    Thinned,
    derive_recall,
    derive_thin_recall,
    moment_at,
    onset_over,
)
from zombiescope.analysis.scan import ReclaimPass, memory_mark
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import reason_of
from zombiescope.facts.cgroups import Shape, Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import RECLAIM_SECONDS, Happening, Sample
from zombiescope.host.access import Host
from zombiescope.probes.readers.node import read_identity, read_memory_bytes, read_shape

_GROWTH_SECONDS = 6 * 3600.0
_STALE_SECONDS = 900.0
_MOST_WHOLE = 720
"""Of samples kept with all their values: twice as many at the most."""
_MOST_EVENTS = 500
USUAL = Thresholds()
READ_AS = "run as root, or as the agent's user"
_UNUSED = Gap("memcg", "a history is read, not the machine")


class Recalled(NamedTuple):
    snapshot: Snapshot
    recall: Recall | None
    happenings: list[Happening]
    moment: Sample | None
    samples: list[Sample]
    gaps: tuple[Gap, ...]


def recall(
    host: Host, folder: bytes, seconds: float | None, at: float | None = None, limits: Thresholds = USUAL
) -> Recalled:
    """The last `seconds`, or everything; with `at` also that moment. `limits`: what growth is forecast to."""
    now = host.wall_clock()
    since = 0.0 if seconds is None else (at if at is not None else now) - seconds
    until = at if at is not None else 1e12
    found = history.reader.remember(folder, since, until)
    shape = read_shape(host)
    snapshot = Snapshot(now, "a history", read_identity(host), shape, *(_UNUSED,) * 5)
    moment = moment_at(found.samples, at) if at is not None else None
    mark = limits.zombies_critical
    ever = found if seconds is None else history.reader.remember(folder, 0.0, until, frozenset({ALL, UPTIME}))
    numbers = derive_recall(found.samples, _marks(host, shape, limits), onset_over(ever.samples, mark))
    return Recalled(snapshot, numbers, found.happenings, moment, found.samples, found.gaps)


def recall_briefly(host: Host, folder: bytes, seconds: float, limits: Thresholds = USUAL) -> Recalled:
    """The last `seconds` in little memory, for whoever asks over HTTP: figures of all samples, growth from a part of them."""
    now, shape = host.wall_clock(), read_shape(host)
    past, thinned = history.reader.Past(folder, now - seconds), Thinned(_MOST_WHOLE)
    for sample in past.samples():
        thinned.take(sample)
    onset = onset_over(history.reader.Past(folder, wanted=frozenset({ALL, UPTIME})).samples(), limits.zombies_critical)
    numbers = derive_thin_recall(thinned, _marks(host, shape, limits), onset)
    snapshot = Snapshot(now, "a history", read_identity(host), shape, *(_UNUSED,) * 5)
    happenings, gaps = past.happenings, list(past.gaps)
    if len(happenings) > _MOST_EVENTS:
        gaps.append(
            Gap("events", f"the last {_MOST_EVENTS} of {len(happenings):,} are shown", "zombiescope history --json")
        )
    return Recalled(snapshot, numbers, happenings[-_MOST_EVENTS:], None, thinned.kept, tuple(gaps))


class Recent(NamedTuple):
    """What a scan takes from the last hours."""

    growth: Growth | Gap
    reclaim: ReclaimPass | None
    """The last that was seen; None where none was."""


def recent_from_history(host: Host, folder: bytes, limits: Thresholds = USUAL) -> Recent | None:
    """None where no history is kept there; a gap where one may be and cannot be read."""
    if not _may_hold_a_history(folder):
        return None

    try:
        if not history.reader.has_history(folder):
            return None
    except OSError as error:
        return Recent(Gap("growth", f"the history cannot be read: {reason_of(error)}", READ_AS), None)
    now = host.wall_clock()
    found = history.reader.remember(folder, now - _GROWTH_SECONDS, now + _STALE_SECONDS)
    boot = read_identity(host).boot_id
    samples = [sample for sample in found.samples if sample.boot == boot]
    if not samples and found.gaps:
        return Recent(found.gaps[0].about("growth"), None)
    reclaim = next((each for each in reversed(samples) if RECLAIM_SECONDS in each.values), None)
    seen = ReclaimPass(reclaim.values[RECLAIM_SECONDS], reclaim.at) if reclaim else None
    if not samples or now - samples[-1].at > _STALE_SECONDS:
        return Recent(Gap("growth", "the history of this host has no recent samples", "is the agent running?"), seen)
    numbers = derive_recall(samples, _marks(host, read_shape(host), limits))
    growth = numbers.growth if numbers else None
    return Recent(growth or Gap("growth", "the history is too short to tell growth"), seen)


def _may_hold_a_history(folder: bytes) -> bool:
    """Only where there is certainly none, there is none."""
    try:
        return stat.S_ISDIR(os.stat(folder).st_mode)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)


def _marks(host: Host, shape: Shape, limits: Thresholds) -> list[tuple[str, float]]:
    """What growth is forecast to: the thresholds, and a share of the machine's memory."""
    marks = [("warning", float(limits.zombies_warning)), ("critical", float(limits.zombies_critical))]
    memory = read_memory_bytes(host)
    if shape.possible_cpus and shape.possible_nodes and isinstance(memory, int):
        marks.append(("memory", memory_mark(memory, limits.memory_share, shape.possible_cpus, shape.possible_nodes)))
    return marks
