# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.ledger/1`: births, deaths, releases and zombies by maker, as the agent has them."""

from __future__ import annotations

from collections.abc import Sequence

from zombiescope.analysis.ledger import Account
from zombiescope.facts.agent import Moment
from zombiescope.facts.gap import Gap
from zombiescope.presenters.document import Json, document


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
