# SPDX-License-Identifier: Apache-2.0
"""Lines of the live screen, for the plain table and the full one alike."""

from zombiescope.facts.cgroups import Look, Sweep
from zombiescope.facts.cores import CoresSeen
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts
from zombiescope.presenters.document import rfc3339
from zombiescope.presenters.figures import count, duration

Resets = tuple[tuple[str, str, int], ...]
"""Device, reason and how many."""
COLUMNS = ("zombies", "births/s", "deaths/s", "releases/s", "maker")
ORDERS = ("zombies", "births", "deaths", "releases")


def headline(at: float, look: Look | Gap, tier: str | None, lost: int | None) -> str:
    counted = look.reason if isinstance(look, Gap) else f"{look.zombies:,} zombies, {look.live:,} live"
    return f"{rfc3339(at)[11:19]} UTC  {counted}  events by {tier or 'nothing'}, {count(lost)} lost"


def cores_words(cores: CoresSeen | Gap) -> str:
    """Who was saturated longest, and by what; how long was watched where nobody was."""
    if isinstance(cores, Gap):
        return f"cores: {cores.reason}"
    watched = f"in {cores.seconds:,.0f} s"
    if not cores.stretches:
        return f"{cores.cores:,} cores, none saturated {watched}"
    by_core: dict[int, float] = {}
    for stretch in cores.stretches:
        by_core[stretch.core] = by_core.get(stretch.core, 0.0) + stretch.seconds
    core = max(by_core, key=lambda each: by_core[each])
    mode = max((each for each in cores.stretches if each.core == core), key=lambda each: each.seconds).mode
    others = f" and {len(by_core) - 1:,} more" if len(by_core) > 1 else ""
    return f"core {core}{others} saturated: {by_core[core]:,.1f} s {watched}, most by {mode}"


def sweep_words(sweep: Sweep | Gap) -> str:
    if isinstance(sweep, Gap):
        return f"sweep: {sweep.reason}"
    about = "" if sweep.cgroups_read >= sweep.cgroups else "about "
    return f"sweep {about}{duration(sweep.seconds)} over {sweep.cgroups:,}"


def resets_words(resets: Resets | Gap) -> str:
    if isinstance(resets, Gap):
        return f"resets: {resets.reason}"
    if not resets:
        return "no resets"
    device, reason, count = max(resets, key=lambda each: each[2])
    total = sum(each[2] for each in resets)
    return f"{total:,} resets, {device} {reason} {count:,}"


def signs_of(cores: CoresSeen | Gap, sweep: Sweep | Gap, resets: Resets | Gap) -> tuple[str, str, str]:
    return cores_words(cores), sweep_words(sweep), resets_words(resets)


def cells(zombies: int, lately: Counts, seconds: float, maker: str) -> tuple[str, str, str, str, str]:
    births, deaths, releases = (f"{count / seconds:,.1f}" if seconds > 0 else "?" for count in lately)
    return f"{zombies:,}", births, deaths, releases, maker
