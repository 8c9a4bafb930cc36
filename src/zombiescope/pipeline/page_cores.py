# SPDX-License-Identifier: Apache-2.0
"""Which core, held by whom: the share of kernel time of every core over a range, the worst first, and its saturated stretches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from zombiescope.analysis.downsampling import Buckets
from zombiescope.facts.series import CORE_PREFIX
from zombiescope.history.ranges import Ranges
from zombiescope.pipeline.page_time import asked_of, bucketed, rendered_gaps

Json = dict[str, Any]
_MOST_STRETCHES = 2_000
_WORDS = re.compile(r"core (?P<core>\d+): (?P<least>at least )?(?P<seconds>[0-9.]+) s, (?P<share>\d+)% (?P<mode>\w+)")


def cores(folder: bytes, query: Mapping[str, str]) -> Json:
    ranges = Ranges(folder)
    asked = asked_of(query, ranges.span())
    names = [name for name in ranges.names() if name.startswith(CORE_PREFIX)]
    buckets = Buckets(asked.begin, asked.end, asked.points)
    bucketed(ranges, buckets, frozenset(names))
    stretches = _stretches(ranges, asked.begin, asked.end)
    by_core: dict[str, float] = {}
    for each in stretches:
        by_core[str(each["core"])] = by_core.get(str(each["core"]), 0.0) + each["seconds"]
    rows: list[Json] = []
    for name in names:
        thin = buckets.thin(name)
        label = name.removeprefix(CORE_PREFIX)
        share = [None if value is None else round(value / 100, 3) for value in thin.high] if thin else []
        known = [value for value in share if value is not None]
        members = _members(label)
        rows.append(
            {
                "core": members[0],
                "cores": members,
                "label": f"core {label}" if len(members) == 1 else f"cores {label}",
                "share": share,
                "mean": round(sum(known) / len(known), 4) if known else None,
                "saturated_seconds": round(sum(by_core.get(str(member), 0.0) for member in members), 3),
            }
        )
    rows.sort(key=lambda row: (-row["saturated_seconds"], -(row["mean"] or 0.0), row["core"]))
    folded = max((len(row["cores"]) for row in rows), default=1)
    return {
        "schema": "zombiescope.heat/1",
        "from": asked.begin,
        "to": asked.end,
        "step": buckets.step,
        "cores": rows,
        "stretches": stretches[-_MOST_STRETCHES:],
        "stretches_in_all": len(stretches),
        "folded": f"{folded} cores in a row: the highest of them" if folded > 1 else None,
        "gaps": rendered_gaps(ranges.gaps) + ([] if names else [_NO_CORES]),
    }


_NO_CORES = {
    "fact": "cores",
    "reason": "this history was kept by an agent that did not remember single cores",
    "hint": "the agent of this version does",
}


def _members(label: str) -> list[int]:
    first, _, last = label.partition("-")
    if not first.isdecimal() or (last and not last.isdecimal()):
        return [0]
    return list(range(int(first), int(last or first) + 1))[:4096]


def _stretches(ranges: Ranges, begin: float, end: float) -> list[Json]:
    found = []
    for each in ranges.happenings(begin, end):
        match = _WORDS.match(each.detail) if each.what == "core-saturated" else None
        if match:
            found.append(
                {
                    "core": int(match["core"]),
                    "from": each.at,
                    "seconds": float(match["seconds"]),
                    "is_cut": bool(match["least"]),
                    "share": int(match["share"]) / 100,
                    "mode": match["mode"],
                    "words": each.detail,
                }
            )
    return found
