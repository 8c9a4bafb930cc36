# SPDX-License-Identifier: Apache-2.0
"""The history of the node of `written.py`: lanes, events, comparison and cores, with a pause in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]
NOW = 1_794_808_166.0
HOUR, DAY = 3600.0, 86_400.0
HOSTILE = "workload:batch/Job/tok-2f\\x1b[31m<img src=x onerror=alert(1)>'\"&\u202e"
HOST: Json = {
    "name": "node-c-0417",
    "kernel": "6.18.44",
    "boot_id": "b",
    "uptime_seconds": DAY,
    "hierarchy": "v1",
    "cpus": 16,
}
PAUSE = (NOW - 4 * HOUR, NOW - 3.6 * HOUR)


def envelope(schema: str, **body: Any) -> Json:
    return {
        "schema": f"zombiescope.{schema}/1",
        "taken_at": "2026-11-16T05:49:26Z",
        "host": HOST,
        "at": NOW,
        "gaps": [],
        **body,
    }


def line(value: Callable[[float], float], begin: float, end: float, points: int) -> list[float | None]:
    """Values by hours since a day ago; nothing in the pause, before two days ago and in the future."""
    step = (end - begin) / points
    moments = [begin + (place + 0.5) * step for place in range(points)]
    return [
        None if PAUSE[0] < at < PAUSE[1] or at > NOW or at < NOW - 2 * DAY else value((at - NOW) / HOUR + 24)
        for at in moments
    ]


def stock(hours: float) -> float:
    return 8.0 if hours < 3.5 else min(20_008.0, 8 + (hours - 3.5) / 19.2 * 20_000)


SERIES: dict[str, tuple[str, str, Callable[[float], float], float | None]] = {
    "zombies": ("Zombies", "cgroups", stock, None),
    "deaths": ("died", "per second", lambda hours: 0.3 if 3.5 < hours < 22.7 else 0.01, None),
    "reclaim": ("Reclaim", "share", lambda hours: min(1.0, max(0.02, (hours - 15) / 9)), 1.0),
    "throttled": ("Throttled", "seconds", lambda hours: 0.0, None),
    "brand_new": ("Something of a later release", "bytes", lambda hours: 4096 * hours, None),
}


def series_document() -> Json:
    described = [
        {
            "name": name,
            "title": title,
            "unit": unit,
            "kind": "level",
            "maximum": most,
            "lane": name,
            "order": place,
            "makers": False,
            "default": True,
            "limits": [{"value": 10_000, "words": "critical from 10,000"}] if name == "zombies" else [],
        }
        for place, (name, (title, unit, _, most)) in enumerate(SERIES.items())
    ]
    lanes = [
        {"id": name, "title": title, "order": place}
        for place, (name, (title, *_)) in enumerate(SERIES.items())
        if name != "brand_new"
    ]
    return envelope("series", **{"from": NOW - 2 * DAY}, to=NOW, interval_seconds=10, series=described, lanes=lanes)


def span_of(query: Mapping[str, str]) -> tuple[float, float, int]:
    return float(query["from"]), float(query["to"]), int(query.get("points", "600"))


def range_document(query: Mapping[str, str]) -> Json:
    begin, end, points = span_of(query)
    wanted = query.get("series", "").split(",") if query.get("series") else list(SERIES)
    found = {}
    for name in wanted:
        values = line(SERIES[name][2], begin, end, points)
        found[name] = {"low": values, "high": values, "last": values}
    pauses = (
        [{"from": PAUSE[0], "to": PAUSE[1], "why": "the agent was not running"}]
        if begin < PAUSE[1] and end > PAUSE[0]
        else []
    )
    return envelope(
        "range",
        **{"from": begin},
        to=end,
        step=(end - begin) / points,
        points=points,
        raw=False,
        series=found,
        pauses=pauses,
    )


def events_document(query: Mapping[str, str]) -> Json:
    begin, end, _ = span_of(query)
    resets = [
        [NOW - 300 - place * 600.0, "eth0 was reset"]
        for place in range(50)
        if begin <= NOW - 300 - place * 600.0 <= end
    ]
    rows = [
        {"id": "zombie-population", "severity": severity, "from": at, "to": to, "words": ""}
        for severity, at, to in (("warning", NOW - 19 * HOUR, NOW - 10 * HOUR), ("critical", NOW - 10 * HOUR, NOW))
    ]
    lanes = [
        {"id": "findings", "title": "Findings", "kind": "stretches", "rows": rows},
        {
            "id": "nic-reset",
            "title": "Network resets",
            "kind": "marks",
            "count": len(resets),
            "marks": resets,
            "watched": [[begin, end]],
            "gap": None,
        },
        {
            "id": "restarts",
            "title": "Restarts",
            "kind": "marks",
            "count": None,
            "marks": [],
            "watched": [],
            "gap": {"reason": "systemd could not be asked"},
        },
        {
            "id": "captures",
            "title": "Captures",
            "kind": "captures",
            "marks": [[NOW - 700, NOW - 640, "test", True]],
            "gap": None,
        },
    ]
    return envelope("events", **{"from": begin}, to=end, lanes=lanes)


def compare_document(query: Mapping[str, str]) -> Json:
    sides = {side: dict(zip(("from", "to"), map(float, query[side].split("..")), strict=True)) for side in "ab"}
    rows = [
        {
            "name": "zombies",
            "title": "Zombies",
            "unit": "",
            "a": {"last": 20_008},
            "b": {"last": 8},
            "change": {"value": 20_000, "words": "+20,000"},
            "words_a": "20,008",
            "words_b": "8",
        },
        {
            "name": "restarts",
            "title": "Restarts",
            "unit": "",
            "a": None,
            "b": None,
            "change": None,
            "words_a": None,
            "words_b": None,
        },
    ]
    return envelope(
        "compare", **sides, rows=rows, events=[{"id": "nic-reset", "title": "Network resets", "a": 14, "b": 0}]
    )


def busy_core(hours: float) -> float:
    return 0.95 if hours > 15 else 0.1


def calm_core(hours: float) -> float:
    return 0.1 if hours else 0.0


def cores_document(query: Mapping[str, str]) -> Json:
    begin, end, points = span_of(query)
    cores = [
        {
            "core": core,
            "label": f"core {core}",
            "share": line(busy_core if core == 1 else calm_core, begin, end, points),
            "saturated_seconds": 412.0 if core == 1 else 0.0,
        }
        for core in (1, *(core for core in range(16) if core != 1))
    ]
    stretch = {
        "core": 1,
        "from": NOW - 700,
        "seconds": 5.0,
        "mode": "system",
        "words": "mem_cgroup_iter 41 %, kswapd0",
        "capture": "test",
    }
    return envelope(
        "heat",
        **{"from": begin},
        to=end,
        step=(end - begin) / points,
        cores=cores,
        stretches=[stretch],
        window=None,
        folded=None,
    )


def window_document() -> Json:
    """cores/1 of the last look."""
    shares = {
        "user": 0.1,
        "system": 0.2,
        "softirq": 0.0,
        "irq": 0.0,
        "steal": 0.0,
        "iowait": 0.0,
        "idle": 0.7,
        "lost": 0.0,
    }
    cores = [{"core": core, **shares, "strip": "KKKKkus.?"} for core in range(2)]
    window = {"began_at": "2026-11-16T05:49:20Z", "seconds": 4.5, "interval_seconds": 0.5, "cores": 2}
    return envelope("cores", window=window, saturated={}, stretches=[], cores=cores)
