# SPDX-License-Identifier: Apache-2.0
"""Did it hold? Judged by what the plan was about: its zombies and its makers' restarts. Of the other numbers those that go on or
got worse are named beside the verdict, and do not decide it: the host does other things meanwhile."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from zombiescope.analysis.comparing import ComparedRow, Direction
from zombiescope.facts.reclaim import Vitals

LEAST_SECONDS = 10.0
"""An ordinary death is over within a second, and a maker that loops is restarted within ten by the usual settings."""
_NOISE = 2
"""One ordinary death on its way at each end of the window."""
_NOISE_SHARE = 0.05
"""Of those that were left: counts are read one after another on a host at work, and a twentieth is less than any lever frees."""


class Holding(StrEnum):
    HELD = "held"
    NOT_HELD = "not-held"
    INCONCLUSIVE = "inconclusive"


class Outcome(NamedTuple):
    verdict: Holding
    why: str


def judge_outcome(before: Vitals, after: Vitals, steps_done: int) -> Outcome:
    if not steps_done:
        return Outcome(Holding.INCONCLUSIVE, "nothing was done, so there is nothing to hold")
    if after.restarts:
        return Outcome(Holding.NOT_HELD, f"the maker was restarted {after.restarts} times in the window")
    if after.ours is None or after.ours_first is None:
        return Outcome(Holding.INCONCLUSIVE, "the zombies of the plan could not be counted")
    grown = after.ours - after.ours_first
    if grown > max(_NOISE, _NOISE_SHARE * after.ours_first):
        return Outcome(Holding.NOT_HELD, f"{grown:,} new zombies in {after.seconds:.0f} s")
    if before.ours is not None and after.ours > max(before.ours, _NOISE):
        return Outcome(Holding.NOT_HELD, f"{after.ours:,} zombies, more than the {before.ours:,} before")
    if after.seconds < LEAST_SECONDS:
        return Outcome(
            Holding.INCONCLUSIVE, f"{after.seconds:.0f} s are too short to tell: at least {LEAST_SECONDS:.0f} s"
        )
    was = "?" if before.ours is None else f"{before.ours:,}"
    return Outcome(Holding.HELD, f"{was} zombies before, {after.ours:,} now, none more in {after.seconds:.0f} s")


_SUBJECT = ("zombies", "growth", "restarts of the maker")


def judge_rows(rows: Sequence[ComparedRow]) -> Outcome:
    """Without an action of ours: by the zombies and their growth alone."""
    by_name = {row.what: row for row in rows}
    stock, growth = by_name["zombies"], by_name["growth"]
    if stock.after.value is None:
        return Outcome(Holding.INCONCLUSIVE, "the zombies could not be counted afterwards")
    was, now = stock.before.value, stock.after.value
    low, per_hour = growth.after.low, growth.after.value
    grown = (per_hour or 0.0) * growth.after.seconds / 3600
    if low is not None and per_hour is not None and low > 0 and grown > max(_NOISE, _NOISE_SHARE * now):
        return Outcome(Holding.NOT_HELD, f"zombies still grow, by about {per_hour:,.0f} per hour; {now:,.0f} now")
    if stock.verdict is Direction.WORSE:
        return Outcome(Holding.NOT_HELD, f"{now:,.0f} zombies, more than the {was:,.0f} before")
    if was is None:
        return Outcome(Holding.INCONCLUSIVE, f"{now:,.0f} zombies now, and nobody knows how many there were before")
    if per_hour is None or growth.after.seconds < LEAST_SECONDS:
        return Outcome(
            Holding.INCONCLUSIVE, f"{now:,.0f} zombies now ({was:,.0f} before): too few looks to tell growth"
        )
    if stock.verdict is Direction.SAME and growth.verdict is not Direction.BETTER and now > _NOISE:
        return Outcome(
            Holding.INCONCLUSIVE, f"{now:,.0f} zombies, as many as before, and they did not grow before either"
        )
    return Outcome(Holding.HELD, f"{was:,.0f} zombies before, {now:,.0f} now, and they do not grow")


def beside_the_verdict(outcome: Outcome, rows: Sequence[ComparedRow]) -> Outcome:
    """What the verdict does not say: numbers that go on, or got worse."""
    others = [row for row in rows if row.what not in _SUBJECT]
    lasting = [row for row in others if row.verdict is Direction.SAME and row.after.number and row.before.number]
    going = [row.what for row in lasting if row.what != "job success"]
    words = [f"{what} go on" if what.endswith("s") else f"{what} goes on" for what in going]
    worse = [row.what for row in others if row.verdict is Direction.WORSE]
    if worse:
        words.append(f"worse: {', '.join(worse)}")
    joint = "but " if outcome.verdict is Holding.HELD else "and "
    return outcome._replace(why=f"{outcome.why}; {joint}{'; '.join(words)}") if words else outcome
