# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.ledger/1`: births, deaths, releases and zombies by maker, as the agent has them."""

from __future__ import annotations

from collections.abc import Sequence

from zombiescope.analysis.ledger import Account
from zombiescope.facts.agent import Moment
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Histogram
from zombiescope.presenters.document import Json, document

_SHARES = {"median": 0.5, "p99": 0.99}


def _quantiles(times: Histogram) -> Json:
    """Upper ends of powers of two: a cgroup lived, or was dead and not released, for less than this."""
    return {name: times.quantile_seconds(share) for name, share in _SHARES.items()}


def render_ledger(moment: Moment, accounts: Sequence[Account], is_backlog_known: bool) -> Json:
    total = moment.total
    has_zombies = moment.makers is not None
    gaps = []
    if total is None:
        gaps.append(Gap("total", "no way to see events was to be had"))
    if total is not None and not moment.has_releases:
        gaps.append(Gap("total.releases", "polling cannot see a release"))
    if not is_backlog_known:
        gaps.append(Gap("makers[].zombies", "no walk has counted the zombies from before the agent began"))
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
