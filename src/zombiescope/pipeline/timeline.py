# SPDX-License-Identifier: Apache-2.0
"""Puts on one axis what the window, the kernel log, the history and a person's file tell, and tests whether failures follow."""

from __future__ import annotations

import random
from typing import NamedTuple

from zombiescope.analysis.correlation import Correlation, Span, derive_correlation
from zombiescope.analysis.event_file import JOB_FAILURE, parse_events
from zombiescope.analysis.nic_resets import derive_resets
from zombiescope.diagnosis.case import Case
from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import LogEventKind
from zombiescope.facts.names import shown
from zombiescope.facts.timeline import Mark, Timeline
from zombiescope.host.shipped import read_named

SATURATED, RESET, STALL, OOM = "saturated core", "nic reset", "stall", "oom report"
_CAUSES = (SATURATED, STALL, OOM, RESET)
_EFFECTS = (RESET, JOB_FAILURE)
_LAG_SECONDS = {RESET: 30.0, JOB_FAILURE: 300.0}
_SEED = 20_251_116
_STALLS = (LogEventKind.SOFT_LOCKUP, LogEventKind.HARD_LOCKUP, LogEventKind.RCU_STALL, LogEventKind.HUNG_TASK)


class Past(NamedTuple):
    """Where else to look: a file of events, and how far back the agent's history is read."""

    events: bytes | None = None
    state: bytes | None = None
    seconds: float = 0.0


class Told(NamedTuple):
    timeline: Timeline
    correlations: tuple[Correlation, ...]
    gaps: tuple[Gap, ...]


def tell(case: Case, past: Past) -> Told:
    end = case.last.snapshot.taken_at
    marks: list[Mark] = []
    watched: dict[str, tuple[float, float]] = {}
    gaps: list[Gap] = []
    _add_log(case, marks, watched)
    _add_cores(case, marks, watched)
    zombies = _add_history(past, end, marks, watched, gaps)
    if past.events is not None:
        given = parse_events(read_named(past.events), shown(past.events))
        marks += given
        watched[JOB_FAILURE] = (min([end, *(mark.at for mark in given)]), end)
    begin = min([case.first.snapshot.taken_at, *(mark.at for mark in marks), *(at for at, _ in zombies)])
    if past.seconds:
        begin = max(begin, end - past.seconds)
    kept = tuple(sorted(mark for mark in marks if begin <= mark.at))
    timeline = Timeline(begin, max(end, begin), kept, watched, zombies)
    return Told(timeline, correlate(timeline), tuple(gaps))


def correlate(timeline: Timeline) -> tuple[Correlation, ...]:
    """Each cause with each effect that comes after it in the chain, over the time in which both were watched."""
    generator = random.Random(_SEED)
    found = []
    for effect in _EFFECTS:
        for cause in _CAUSES:
            if cause == effect or not timeline.times(cause) or not timeline.times(effect):
                continue
            spans = [timeline.watched.get(kind, (timeline.begin, timeline.end)) for kind in (cause, effect)]
            span = Span(max(begin for begin, _ in spans), min(end for _, end in spans))
            events = (cause, timeline.times(cause)), (effect, timeline.times(effect))
            found.append(derive_correlation(*events, span, _LAG_SECONDS[effect], generator))
    return tuple(each for each in found if each.cases)


def _add_log(case: Case, marks: list[Mark], watched: dict[str, tuple[float, float]]) -> None:
    log = case.kernel_log
    if isinstance(log, Gap):
        return
    for kind in (RESET, STALL, OOM):
        watched[kind] = (log.since, log.until)
    marks += [Mark(reset.at, RESET, f"{reset.device}: {reset.reason}") for reset in derive_resets(log.events)]
    marks += [Mark(event.at, STALL, event.text) for event in log.events if event.kind in _STALLS]
    marks += [
        Mark(event.at, OOM, event.text)
        for event in log.events
        if event.kind is LogEventKind.OUT_OF_MEMORY and "invoked oom-killer" in event.text
    ]


def _add_cores(case: Case, marks: list[Mark], watched: dict[str, tuple[float, float]]) -> None:
    seen = case.cores
    if isinstance(seen, Gap):
        return
    watched[SATURATED] = (seen.began_at, seen.began_at + seen.seconds)
    marks += [
        Mark(stretch.begin, SATURATED, f"core {stretch.core}: {stretch.seconds:.1f} s, {stretch.mode}")
        for stretch in seen.stretches
    ]


def _add_history(
    past: Past, end: float, marks: list[Mark], watched: dict[str, tuple[float, float]], gaps: list[Gap]
) -> tuple[tuple[float, float], ...]:
    """Events and the number of zombies that the agent remembers; none where no agent keeps a history."""
    if past.state is None or not past.seconds:
        return ()
    from zombiescope.history.reader import remember  # noqa: PLC0415 (most looks have no past)

    try:
        found = remember(past.state, end - past.seconds, end)
    except ObservationError as error:
        gaps.append(Gap("timeline", error.why, error.hint))
        return ()
    gaps += found.gaps
    for happening in found.happenings:
        what = SATURATED if "saturated" in happening.what else happening.what
        marks.append(Mark(happening.at, what, happening.detail))
        watched[what] = (end - past.seconds, end)
    return tuple((sample.at, sample.values["zombies"]) for sample in found.samples if "zombies" in sample.values)
