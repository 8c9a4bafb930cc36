# SPDX-License-Identifier: Apache-2.0
"""Services that are numbered for each run (`systemd-run --unit job-$N`): one maker where several are seen and none comes back under
its own number. One alone keeps its name, for `postgresql-14.service` is a service like any other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from zombiescope.facts.flows import FlowsSeen, MakerFlow

_NUMBERED = re.compile(r"(unit:.*[^0-9*][-_.])[0-9]+(\.service)")
_LEAST_NAMES = 5
"""More than the versions or shards of one service that lie side by side and were each stopped once."""
_MOST_EACH = 2.0
"""On average: a service that is restarted leaves many under one name, one that is made anew leaves one."""


def folding(counts: Mapping[str, int], known: Iterable[str] = ()) -> dict[str, str]:
    """`counts`: by maker, zombies or births. `known`: patterns that something else has shown to be such."""
    names: dict[str, list[str]] = {}
    for maker in counts:
        found = _NUMBERED.fullmatch(maker)
        if found:
            names.setdefault(f"{found[1]}*{found[2]}", []).append(maker)
    sure = frozenset(known)
    return {
        maker: pattern
        for pattern, makers in names.items()
        if pattern in sure or _are_made_anew([counts[maker] for maker in makers])
        for maker in makers
    }


def _are_made_anew(each: list[int]) -> bool:
    return len(each) >= _LEAST_NAMES and sum(each) < _MOST_EACH * len(each)


def fold_flows(seen: FlowsSeen, known: Iterable[str] = ()) -> FlowsSeen:
    patterns = folding({flow.maker: flow.births for flow in seen.makers}, known)
    if not patterns:
        return seen
    together: dict[str, MakerFlow] = {}
    for flow in seen.makers:
        maker = patterns.get(flow.maker, flow.maker)
        other = together.get(maker)
        together[maker] = flow._replace(maker=maker) if other is None else _sum(other, flow)
    ranked = sorted(together.values(), key=lambda flow: (-(flow.left or 0), -flow.deaths, flow.maker))
    return seen._replace(makers=tuple(ranked))


def _sum(one: MakerFlow, other: MakerFlow) -> MakerFlow:
    is_known = one.releases is not None and other.releases is not None
    return MakerFlow(
        one.maker,
        one.births + other.births,
        one.deaths + other.deaths,
        (one.releases or 0) + (other.releases or 0) if is_known else None,
    )
