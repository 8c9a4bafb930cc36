# SPDX-License-Identifier: Apache-2.0
"""What the recording commands share: which captures are worth keeping, and what is said meanwhile."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from zombiescope.facts.names import shown
from zombiescope.pipeline.profile_events import Span, keeper
from zombiescope.profiler.files.sources import OWN, PERF
from zombiescope.profiler.stacks.coverage import Reason

if TYPE_CHECKING:
    from zombiescope.profiler.stacks.capture import Capture


class Flags(NamedTuple):
    """What was given to a command that has a configuration, too."""

    config: str | None
    values: dict[str, Any]
    given: frozenset[str]


def told_of(path: bytes, capture: Capture) -> str:
    return f"stored {shown(path)}: {len(capture):,} samples, {capture.seconds:.1f} s"


def worth_keeping(
    events: tuple[str, ...], state: bytes | None, *, scans: bool = True
) -> Callable[[Capture], Sequence[Reason]]:
    from zombiescope.profiler.stacks.saturation import find_moments  # noqa: PLC0415

    happened = keeper(events, state, scans=scans)

    def judge(capture: Capture) -> list[Reason]:
        found = [Reason(*event) for event in happened(span_of(capture))]
        moments = find_moments(capture) if "saturated-core" in events else []
        if moments:
            worst = max(moments, key=lambda one: one.score)
            length = worst.end - worst.begin
            words = f"core {worst.cpu} ran kernel code for {length:.1f} s ({100 * worst.share:.0f} %)"
            found.append(Reason("saturated-core", (capture.began or 0.0) + worst.begin, words))
        return found

    return judge


def span_of(capture: Capture) -> Span | None:
    """None: it does not say when it was taken."""
    clock = capture.about.clock
    if capture.began is None or clock is None:
        return None
    return Span(capture.began, clock.on_log(int(capture.time[0])) / 1e9, capture.seconds)


def say_who(name: str, why: str) -> None:
    who = {OWN: "our own sampler", PERF: "perf"}[name]
    click.echo(f"sampling with {who}: {shown(os.fsencode(why))}", file=sys.stderr)


def say_dropped(path: bytes, why: str) -> None:
    click.echo(f"not stored {shown(path)}: {why}", file=sys.stderr)
