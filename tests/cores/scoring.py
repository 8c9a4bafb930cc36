# SPDX-License-Identifier: Apache-2.0
"""The labelled runs replayed through the product, at both paces, and compared with the truth of the loads' own clocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from zombiescope.facts.cores import CoresSeen, Stretch
from zombiescope.host.bundle import open_bundle
from zombiescope.pipeline.cores import watch_cores
from zombiescope.watching.cores import CoresWatch

FOLDER = Path(__file__).parent / "runs"
SECONDS = 6.0
HALVES = ("tuning", "unseen", "later")
"""Those that the detector was tuned on; those first judged when it was done; those of other loads, recorded and first judged after
it was changed for what the second ones had shown."""


class Label(NamedTuple):
    file: str
    half: str
    load: str
    core: int
    begin: float
    seconds: float
    kernel_seconds: float
    user_seconds: float
    saturates: bool

    @property
    def is_clear(self) -> bool:
        """By the load's own clock far from the line between busy and saturated, which the detector draws at 85 % of the core."""
        share = self.kernel_seconds / self.seconds
        return share >= 0.88 or share < 0.8


class Score(NamedTuple):
    found: int
    missed: int
    false: int
    begin_error: float
    """The worst, in seconds."""
    seconds_error: float

    @property
    def precision(self) -> float | None:
        return self.found / (self.found + self.false) if self.found + self.false else None

    @property
    def recall(self) -> float | None:
        return self.found / (self.found + self.missed) if self.found + self.missed else None


def labels() -> list[Label]:
    return [Label(**each) for each in json.loads((FOLDER / "labels.json").read_text(encoding="utf-8"))]


def by_command(label: Label) -> tuple[Stretch, ...]:
    """As `zombiescope cores --root` sees it."""
    seen = watch_cores(open_bundle(bytes(FOLDER / label.file)), SECONDS, with_blame=False).seen
    assert isinstance(seen, CoresSeen), seen
    return seen.stretches


def by_agent(label: Label) -> tuple[Stretch, ...]:
    """As the agent sees it, a look a second."""
    host = open_bundle(bytes(FOLDER / label.file))
    watch = CoresWatch(host)
    for _ in range(int(SECONDS) + 1):
        watch.look()
        host.wait(1.0)
    seen = watch.seen()
    assert isinstance(seen, CoresSeen), seen
    return seen.stretches


def score(pairs: list[tuple[Label, tuple[Stretch, ...]]]) -> Score:
    found = missed = false = 0
    begin_error = seconds_error = 0.0
    for label, stretches in pairs:
        mine = [each for each in stretches if label.saturates and is_of(each, label)]
        false += len(stretches) - len(mine)
        if mine:
            found += 1
            best = max(mine, key=lambda each: each.seconds)
            false += len(mine) - 1
            begin_error = max(begin_error, abs(best.begin - label.begin))
            seconds_error = max(seconds_error, abs(best.seconds - label.seconds))
        elif label.saturates:
            missed += 1
    return Score(found, missed, false, begin_error, seconds_error)


def is_of(stretch: Stretch, label: Label) -> bool:
    begin, end = max(stretch.begin, label.begin), min(stretch.begin + stretch.seconds, label.begin + label.seconds)
    return stretch.core == label.core and end - begin >= label.seconds / 2
