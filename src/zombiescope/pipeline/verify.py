# SPDX-License-Identifier: Apache-2.0
"""Did it hold? Before: what the history remembers of the hours before, else the window that `apply` watched. After: a window now,
or, since a moment that a person names, what the history remembers since then."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from zombiescope import history, presenters
from zombiescope.analysis.comparing import ComparedRow, ShareChange, share_change
from zombiescope.analysis.maker import unit_maker
from zombiescope.analysis.recovery import Period, Tries, derive_rows, query_row
from zombiescope.diagnosis.outcome import beside_the_verdict, judge_outcome, judge_rows
from zombiescope.errors import ObservationError, UsageError, reason_of
from zombiescope.execution.checks import keep_check
from zombiescope.execution.journal import Entry
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import ACTOR_FAILURE, JOB_FAILURE, JOB_SUCCESS, Happening, Mark, Sample
from zombiescope.facts.names import unshown
from zombiescope.facts.reclaim import vitals_of
from zombiescope.host.access import Host
from zombiescope.host.live import LiveHost
from zombiescope.pipeline.past_actions import Opened, open_action
from zombiescope.pipeline.timeline import read_jobs, read_query
from zombiescope.probes.readers.node import read_identity
from zombiescope.remedies.receipts import Verified
from zombiescope.watching.recovery import Treated, watch_recovery

_BEFORE_SECONDS = 6 * 3600.0
_LEAST_HISTORY_SECONDS = 300.0
_LATE_SECONDS = 900.0
_SEED = 20_261_118
Progress = Callable[[float], None]


class Asked(NamedTuple):
    state: str
    action: str | None = None
    window: float = 600.0
    since: float | None = None
    """Without an action of ours: the moment of the change, seconds since the epoch."""
    events: tuple[str, ...] = ()
    """Where job failures and successes are told: files, `journal`, addresses of a Ray dashboard."""
    prometheus: str = ""
    query: str = ""
    """A number over time that a Prometheus keeps."""
    higher_is_better: bool = False


def verify(asked: Asked, progress: Progress = lambda _: None) -> Verified:
    host = LiveHost()
    taken_at = host.wall_clock()
    return _since(asked, host, taken_at, progress) if asked.since is not None else _of_action(asked, host, progress)


def _of_action(asked: Asked, host: Host, progress: Progress) -> Verified:
    opened = open_action(asked.state, asked.action)
    begin = opened.begin
    if "before" not in begin:
        raise ObservationError(f"cannot verify {opened.name}", "its journal has no beginning", "zombiescope actions")
    below = begin.get("below")
    parent = None if below is None else unshown(below)
    subject = Treated(tuple(begin.get("makers", ())), begin.get("maker"), parent, begin.get("zombie"))
    taken_at = host.wall_clock()
    changed_at = float(begin.get("at", taken_at))
    before, gaps = _before(asked.state, changed_at, subject.makers, begin)
    watched = watch_recovery(host, subject, asked.window, progress)
    window = Period(watched.samples, "window", taken_at, host.wall_clock())
    jobs = _Jobs(asked, host.wall_clock())
    tries = jobs.tries(changed_at, _ended_at(opened) or changed_at, window)
    rows = derive_rows(before, window, subject.makers, tries, generator=random.Random(_SEED))
    rows += jobs.queried(changed_at, taken_at)
    vitals = vitals_of(begin["before"])
    done = sum(entry["entry"] == "step-end" and entry.get("status") == "done" for entry in opened.entries)
    outcome = beside_the_verdict(judge_outcome(vitals, watched.vitals, done), rows)
    told = (*gaps, *watched.gaps, *jobs.gaps)
    seen = Verified(
        opened.name, outcome, vitals, watched.vitals, taken_at, read_identity(host), rows, told, jobs.change()
    )
    return _kept(opened.folder, seen, host.wall_clock())


def _kept(folder: str, seen: Verified, at: float) -> Verified:
    """Beside the journal, for whoever asks later whether it held. A folder that refuses it takes nothing from the answer."""
    try:
        keep_check(folder, {"at": round(at, 3), **presenters.receipt_text.verify_body(seen)})
    except OSError as error:
        why = f"the verdict could not be kept: {reason_of(error)}"
        return seen._replace(gaps=(*seen.gaps, Gap("kept", why, "make room in the state folder, then verify again")))
    return seen


def _since(asked: Asked, host: Host, taken_at: float, progress: Progress) -> Verified:
    assert asked.since is not None
    if asked.since >= taken_at:
        raise UsageError("cannot verify from then on", "the moment lies in the future", "such as --since 2h")
    before, gaps = _before(asked.state, asked.since, (), {})
    later, more = _remembered(asked.state, asked.since, taken_at, ())
    if later.seconds < asked.window or taken_at - later.end > _LATE_SECONDS:
        watched = watch_recovery(host, Treated((), None, None), asked.window, progress)
        later, more = Period(watched.samples, "window", taken_at, host.wall_clock()), (*more, *watched.gaps)
    jobs = _Jobs(asked, host.wall_clock())
    rows = derive_rows(before, later, (), jobs.tries(asked.since, asked.since, later), generator=random.Random(_SEED))
    rows += jobs.queried(asked.since, asked.since)
    outcome = beside_the_verdict(judge_rows(rows), rows)
    told = (*gaps, *more, *jobs.gaps)
    return Verified(None, outcome, None, None, taken_at, read_identity(host), rows, told, jobs.change())


def remembers(state: str, now: float) -> bool:
    """Whether the history of that folder covers the last minutes, so that nobody need watch them again."""
    period, _ = _remembered(state, now - 2 * _LEAST_HISTORY_SECONDS, now, ())
    return period.seconds >= _LEAST_HISTORY_SECONDS


def _before(state: str, until: float, makers: Sequence[str], begin: Entry) -> tuple[Period, tuple[Gap, ...]]:
    found, gaps = _remembered(state, until - _BEFORE_SECONDS, until, makers)
    if found.seconds >= _LEAST_HISTORY_SECONDS:
        return found, gaps
    window = Period(tuple(_samples(begin.get("before_samples", ()))), "window", until - _BEFORE_SECONDS, until)
    return (window, ()) if window.seconds > found.seconds else (found, gaps)


def _samples(plain: Any) -> Iterable[Sample]:
    """From a journal, a line of which may be damaged."""
    for number, row in enumerate(plain if isinstance(plain, list) else ()):
        try:
            at, boot, values = row
            yield Sample(number, float(at), str(boot), {str(name): float(value) for name, value in values.items()})
        except (TypeError, ValueError, AttributeError):
            continue


def _remembered(state: str, since: float, until: float, makers: Sequence[str]) -> tuple[Period, tuple[Gap, ...]]:

    try:
        found = history.reader.remember(unshown(state), since, until)
    except ObservationError as error:
        return Period((), "history", since, until), (Gap("rows[].before", error.why, error.hint),)
    samples = _with_restarts([each for each in found.samples if each.at < until], found.happenings, makers)
    end = samples[-1].at if samples else since
    return Period(samples, "history", samples[0].at if samples else since, end), found.gaps


def _with_restarts(samples: Sequence[Sample], happenings: Sequence[Happening], makers: Sequence[str]) -> list[Sample]:
    """Restarts are events there; as a number that grows they are a series like others."""
    times = sorted(
        happening.at
        for happening in happenings
        if happening.what == "unit-restarted" and unit_maker(happening.detail.partition(":")[0]) in makers
    )
    if not makers:
        return list(samples)
    found, number = [], 0
    for sample in samples:
        while number < len(times) and times[number] <= sample.at:
            number += 1
        found.append(sample._replace(values={**sample.values, "restarts": float(number)}))
    return found


class _Jobs:
    """Job failures and successes that a person points to."""

    def __init__(self, asked: Asked, now: float) -> None:
        self.marks: tuple[Mark, ...] = ()
        self.gaps: tuple[Gap, ...] = ()
        self._asked, self._is_asked, self._now = asked, bool(asked.events), now
        if asked.events:
            found, self.gaps = read_jobs(asked.events)
            # An actor that died is a part of a job: it counts where no job is told.
            jobs = tuple(mark for mark in found if mark.what != ACTOR_FAILURE)
            self.marks = jobs or tuple(mark._replace(what=JOB_FAILURE) for mark in found)

    def tries(self, until: float, since: float, after: Period) -> tuple[Tries, Tries] | None:
        """All that is told of before and of after: jobs are rarer than samples."""
        if not self._is_asked:
            return None
        first = min((mark.at for mark in self.marks), default=until)
        return self._between(min(first, until), until), self._between(since, max(self._now, after.end))

    def change(self) -> ShareChange | None:
        return share_change([(mark.at, mark.what == JOB_SUCCESS) for mark in self.marks])

    def queried(self, until: float, since: float) -> tuple[ComparedRow, ...]:
        asked = self._asked
        if not asked.query:
            return ()
        try:
            before = read_query(asked.prometheus, asked.query, until - _BEFORE_SECONDS, until)
            after = read_query(asked.prometheus, asked.query, since, self._now)
        except ObservationError as error:
            self.gaps += (Gap("rows[].before.value", error.why, error.hint),)
            before, after = [], []
        return (query_row(before, after, random.Random(_SEED), higher_is_better=asked.higher_is_better),)

    def _between(self, begin: float, end: float) -> Tries:
        inside = [mark for mark in self.marks if begin <= mark.at < end]
        failed = sum(mark.what == JOB_FAILURE for mark in inside)
        knows_successes = any(mark.what == JOB_SUCCESS for mark in self.marks)
        return Tries(failed, len(inside) if knows_successes else None, max(end - begin, 0.0))


def _ended_at(opened: Opened) -> float | None:
    ends = [entry.get("at") for entry in opened.entries if entry["entry"] == "end"]
    return float(ends[-1]) if ends and isinstance(ends[-1], int | float) else None
