# SPDX-License-Identifier: Apache-2.0
"""Read what the agent remembers and put it in numbers: `history`, and the growth of a `scan`."""

from __future__ import annotations

import os
from typing import NamedTuple

from zombiescope.analysis.growth import Growth
from zombiescope.analysis.recall import Recall, derive_recall, moment_at
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import MAKER_PREFIX, Happening, Sample
from zombiescope.facts.snapshot import Snapshot
from zombiescope.host.access import Host
from zombiescope.probes.readers.node import read_identity, read_shape

_GROWTH_SECONDS = 6 * 3600.0
_STALE_SECONDS = 900.0
_UNUSED = Gap("memcg", "a history is read, not the machine")


class Recalled(NamedTuple):
    snapshot: Snapshot
    recall: Recall | None
    happenings: list[Happening]
    moment: Sample | None
    samples: list[Sample]
    gaps: tuple[Gap, ...]


def recall(host: Host, folder: bytes, seconds: float | None, at: float | None = None) -> Recalled:
    """The last `seconds`, or everything; with `at` also that moment."""
    from zombiescope.history.reader import remember  # noqa: PLC0415 (a scan without a history does not pay for it)

    now = host.wall_clock()
    since = 0.0 if seconds is None else (at if at is not None else now) - seconds
    found = remember(folder, since, at if at is not None else 1e12)
    thresholds = Thresholds()
    marks = [("warning", float(thresholds.zombies_warning)), ("critical", float(thresholds.zombies_critical))]
    snapshot = Snapshot(now, "a history", read_identity(host), read_shape(host), *(_UNUSED,) * 5)
    moment = moment_at(found.samples, at) if at is not None else None
    numbers = derive_recall(found.samples, marks, thresholds.zombies_critical)
    return Recalled(snapshot, numbers, found.happenings, moment, found.samples, found.gaps)


def growth_from_history(host: Host, folder: bytes) -> Growth | Gap | None:
    """None where no history is kept there."""
    if not os.path.isdir(folder):
        return None
    from zombiescope.history.reader import has_history, remember  # noqa: PLC0415

    if not has_history(folder):
        return None
    now = host.wall_clock()
    found = remember(folder, now - _GROWTH_SECONDS, now + _STALE_SECONDS)
    boot = read_identity(host).boot_id
    samples = [sample for sample in found.samples if sample.boot == boot]
    if not samples or now - samples[-1].at > _STALE_SECONDS:
        return Gap("growth", "the history of this host has no recent samples", "is the agent running?")
    thresholds = Thresholds()
    marks = [("warning", float(thresholds.zombies_warning)), ("critical", float(thresholds.zombies_critical))]
    numbers = derive_recall(samples, marks, thresholds.zombies_critical)
    return numbers.growth if numbers and numbers.growth else Gap("growth", "the history is too short to tell growth")


def makers_in(sample: Sample) -> dict[str, float]:
    return {
        name.removeprefix(MAKER_PREFIX): value for name, value in sample.values.items() if name.startswith(MAKER_PREFIX)
    }
