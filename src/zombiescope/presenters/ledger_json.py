# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.ledger/1`: births, deaths, releases and zombies by maker, as the agent has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zombiescope.analysis.ledger import Account
from zombiescope.facts.agent import Moment
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Histogram
from zombiescope.presenters.document import Json, document

_REFUSED = "events."
_FACTS = {"births": "total.births", "releases": "total.releases"}
_SHARES = {"median": 0.5, "p99": 0.99}


def _quantiles(times: Histogram) -> Json:
    """Upper ends of powers of two: a cgroup lived, or was dead and not released, for less than this."""
    return {name: times.quantile_seconds(share) for name, share in _SHARES.items()}


def _of_events(moment: Moment) -> Iterator[Gap]:
    """Why no better tier was available, and what this one cannot tell."""
    if moment.total is None:
        for fact in ("tier", "total", "lost"):
            yield Gap(fact, "no way to see events is available")
        return
    better = [gap for gap in moment.event_gaps if gap.fact.startswith(_REFUSED)]
    if better:
        yield Gap(
            "tier", "; ".join(f"{gap.fact.removeprefix(_REFUSED)}: {gap.reason}" for gap in better), better[0].hint
        )
    for gap in moment.event_gaps:
        if gap not in better:
            yield gap.about(_FACTS.get(gap.fact, gap.fact))


def _of_makers(moment: Moment, *, is_backlog_known: bool) -> Iterator[Gap]:
    if not moment.has_releases:
        yield Gap("makers[].releases", "releases are not seen")
    if not is_backlog_known:
        yield Gap("makers[].zombies", "no walk has counted the zombies from before the agent began")
    elif moment.makers is None:
        yield Gap("makers[].zombies", "without releases they are known at the moment of a walk alone")


def render_ledger(moment: Moment, accounts: Sequence[Account], is_backlog_known: bool) -> Json:
    total = moment.total
    has_zombies = moment.makers is not None
    gaps = [*_of_events(moment), *_of_makers(moment, is_backlog_known=is_backlog_known)]
    if not any(moment.lifetimes.buckets):
        gaps += [Gap(f"seconds.lifetime.{name}", "no cgroup was seen to be born and to die") for name in _SHARES]
    if not any(moment.zombie_times.buckets):
        gaps += [Gap(f"seconds.as_zombie.{name}", "no cgroup was seen to die and to be released") for name in _SHARES]
    body: Json = {
        "tier": moment.tier,
        "lost": moment.lost,
        "total": None
        if total is None
        else {
            "births": total.births,
            "deaths": total.deaths,
            "releases": total.releases if moment.has_releases else None,
        },
        "seconds": {"lifetime": _quantiles(moment.lifetimes), "as_zombie": _quantiles(moment.zombie_times)},
        "makers": [
            {
                "maker": account.maker,
                "zombies": account.zombies if has_zombies else None,
                "births": account.counts.births,
                "deaths": account.counts.deaths,
                "releases": account.counts.releases if moment.has_releases else None,
            }
            for account in accounts
        ],
    }
    return document("ledger/1", moment.snapshot, body, gaps)
