# SPDX-License-Identifier: Apache-2.0
"""Lines of the live screen, for the plain table and the full one alike."""

from __future__ import annotations

from zombiescope.facts.cgroups import Look
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts
from zombiescope.presenters.document import rfc3339

COLUMNS = ("zombies", "births/s", "deaths/s", "releases/s", "maker")
ORDERS = ("zombies", "births", "deaths", "releases")


def headline(at: float, look: Look | Gap, tier: str | None, lost: int) -> str:
    counted = look.reason if isinstance(look, Gap) else f"{look.zombies:,} zombies, {look.live:,} live"
    return f"{rfc3339(at)[11:19]} UTC  {counted}  events by {tier or 'nothing'}, {lost:,} lost"


def cells(zombies: int, lately: Counts, seconds: float, maker: str) -> tuple[str, str, str, str, str]:
    births, deaths, releases = (f"{count / seconds:,.1f}" if seconds > 0 else "?" for count in lately)
    return f"{zombies:,}", births, deaths, releases, maker
