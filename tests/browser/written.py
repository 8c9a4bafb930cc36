# SPDX-License-Identifier: Apache-2.0
"""A node written by hand, in the documents of the page's contract: the incident at any size, with hostile names.

What real nodes say is in the tests over an agent and over recordings; here every size, gap and name can be chosen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.browser.written_time import (
    DAY,
    HOSTILE,
    HOUR,
    NOW,
    Json,
    compare_document,
    cores_document,
    envelope,
    events_document,
    line,
    range_document,
    series_document,
    stock,
    window_document,
)
from tests.profiler.perf_files import TOOLS, small_capture

from zombiescope.profiler.asking import Opened, ProfileApi
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.web.captures import colours
from zombiescope.web.http import Request, Response
from zombiescope.web.site import Site, answer_static, error_response

OTHERS = (
    (HOSTILE, "/kubepods/burstable", 5, "page_cache", 8_800_000),
    ("container:containerd", "/kubepods/besteffort", 2, "page_cache", 106_000),
    ("session:1000", "/user.slice", 1, "socket", 0),
)


def finding(name: str, severity: str, role: str, title: str, summary: str) -> Json:
    fact = {
        "fact": "core[1].seconds",
        "value": 5.0,
        "unit": "seconds",
        "source": "/proc/stat",
        "at": "2026-11-16T05:49:20Z",
        "text": "5.0 s",
    }
    verdict = "present" if severity in ("critical", "warning") else "absent" if severity == "ok" else "unknown"
    return {
        "id": name,
        "verdict": verdict,
        "severity": severity,
        "role": role,
        "title": title,
        "summary": summary,
        "evidence": [fact],
        "explained_by": [],
        "remedies": [],
    }


FINDINGS = [
    finding("nic-reset", "critical", "symptom", "A network card was reset", "eth0 was reset 50 times in the last day"),
    finding(
        "saturated-core",
        "critical",
        "symptom",
        "A core saturated in the kernel",
        "core 1 was at least 5.0 s in the kernel without a break",
    ),
    finding(
        "costly-reclaim-walk",
        "warning",
        "mechanism",
        "Reclaim walks over zombies",
        "252 runs of reclaim took 19 ms each",
    ),
    finding(
        "zombie-population",
        "critical",
        "mechanism",
        "Zombie memory cgroups",
        "20,008 dead memory cgroups are still in the kernel",
    ),
    finding(
        "pinned-shared-memory",
        "critical",
        "mechanism",
        "Shared memory holds the dead",
        "20,000 of 20,008 zombies are held by shared memory",
    ),
    finding(
        "reclaim-pressure",
        "critical",
        "mechanism",
        "Tasks stall on memory",
        "some task stalled on memory 82 % of the time",
    ),
    finding("cpu-steal", "ok", "origin", "The hypervisor takes the CPU away", "0 % of CPU time was stolen in 4 s"),
    finding(
        "crash-looping-unit", "unknown", "origin", "A unit is restarted over and over", "systemd could not be asked"
    ),
]


def number(name: str, text: str, suffix: str, note: str, value: Callable[[float], float] | None, **more: Any) -> Json:
    values = line(value, NOW - DAY, NOW, 120) if value else None
    day = (
        {
            "from": NOW - DAY,
            "to": NOW,
            "points": 120,
            "low": values,
            "high": values,
            "kind": more.pop("kind", "line"),
        }
        if values
        else None
    )
    return {
        "id": name,
        "title": name,
        "value": 1 if value else None,
        "unit": "",
        "text": text,
        "suffix": suffix,
        "note": note,
        "severity": None,
        "limit": None,
        "day": day,
        "gap": None,
        **more,
    }


def numbers_of_now() -> list[Json]:
    return [
        number(
            "zombies",
            "20,008",
            "",
            "critical from 10,000",
            stock,
            limit={"value": 10_000, "words": "critical from 10,000"},
        ),
        number(
            "growth",
            "+0",
            "per hour",
            "+1,042 per hour until 04:52Z",
            lambda hours: 1042.0 if 3.5 < hours < 22.7 else 4.0,
        ),
        number("forecast", "flat", "", "no limit ahead", stock),
        number("kernel_bytes", "345", "MiB", "an estimate: 17.6 KiB per zombie", stock),
        number(
            "saturated_seconds", "5.0", "s of the last 5.1", "core 1", lambda hours: max(0.0, hours - 15), kind="bars"
        ),
        number("nic_resets", "", "", "", None, gap={"reason": "the kernel log may not be read", "hint": "CAP_SYSLOG"}),
    ]


REMEDY = {
    "title": "Delete 20,000 files in `/dev/shm/unused-agent`",
    "why": "",
    "zombies_freed": 20_000,
    "bytes_freed": 81_920_000,
    "frees": "20,000 zombies, 78.1 MiB",
    "risk": "high",
    "undo": "none; small files are kept",
    "steps": 2,
    "look_first": "sudo zombiescope apply",
    "do_it": "sudo zombiescope apply --yes --consent delete:/dev/shm/unused-agent",
    "steps_of": [],
}


def now_document() -> Json:
    return envelope(
        "now",
        severity="critical",
        since=NOW - 39_000,
        findings=FINDINGS,
        origin="pinned-shared-memory",
        maker=HOSTILE,
        remedy=REMEDY,
        numbers=numbers_of_now(),
        verdict=f"20,008 dead memory cgroups are still in the kernel and a core is held; made by `{HOSTILE}`",
        chains=[
            ["nic-reset", "saturated-core", "costly-reclaim-walk", "zombie-population", "pinned-shared-memory"],
            ["reclaim-pressure", "costly-reclaim-walk"],
        ],
        in_vain=[{"what": "drop_caches", "why": "it drops clean file pages alone"}],
        looked_for=["cpu-steal"],
        last_change=None,
        how="autopsy by bpf",
        unknowns=[
            {
                "question": "Does a unit still crash-loop?",
                "fact": "x",
                "reason": "systemd could not be asked",
                "hint": "zombiescope audit",
            }
        ],
    )


def deltas(values: list[float], scale: float = 1) -> Json:
    whole = [round(value / scale) for value in values]
    return {"deltas": [one - before for before, one in zip([0, *whole], whole, strict=False)], "scale": scale}


def zombies_document(count: int) -> Json:
    rows = [(0, NOW - 20 * HOUR + place, f"{place:06d}") for place in range(count)]
    rows += [(code, NOW - 30 * HOUR, "data") for code, one in enumerate(OTHERS, 1) for _ in range(one[2])]
    codes = [row[0] for row in rows]

    def named(first: Any, rest: list[Any]) -> Json:
        return {"dictionary": [first, *rest], "codes": codes}

    pins = {
        "dictionary": ["tmpfs", "page_cache", "socket"],
        "codes": [0 if code == 0 else 2 if code == 3 else 1 for code in codes],
    }
    columns = {
        "id": deltas([6_245_667 + place for place in range(len(rows))]),
        "maker": named("unit:unused-agent.service", [one[0] for one in OTHERS]),
        "parent": named("/system.slice", [one[1] for one in OTHERS]),
        "folder": named("/system.slice/", [f"{one[1]}/" for one in OTHERS]),
        "name": named("unused-agent.service", ["pod-x", "c0ffee", "session-4.scope"]),
        "born": deltas([row[1] - 3 for row in rows], 0.1),
        "died": deltas([row[1] for row in rows], 0.1),
        "bytes": named(4096, [one[4] for one in OTHERS]),
        "refs": {"constant": 1},
        "pin": pins,
        "pins": pins,
        "holder": {"constant": None},
        "file_folder": named("/dev/shm/unused-agent/", ["/var/lib/<b>/", "/var/lib/x/", None]),
        "file_name": {"values": [row[2] if row[0] < 3 else None for row in rows]},
        "freed_by": {"dictionary": ["delete_file", "drop_file", "close_socket"], "codes": pins["codes"]},
    }
    by_maker = [
        {"maker": "unit:unused-agent.service", "zombies": count},
        *({"maker": one[0], "zombies": one[2]} for one in OTHERS),
    ]
    return envelope(
        "zombies",
        tier="bpf",
        count=len(rows),
        counted=len(rows) + 32,
        live=32,
        page_bytes=4096,
        columns=columns,
        reconciliation={"walk": len(rows), "counted_minus_live": len(rows), "agree": True, "why": ""},
        totals={"by_maker": by_maker},
        words={
            "pins": {"tmpfs": "shared memory (tmpfs)", "page_cache": "page cache"},
            "actions": {"delete_file": "delete the file"},
        },
    )


def tree_document(count: int) -> Json:
    def node(name: str, parent: int, zombies: int | None, held: int, makers: list[Any]) -> Json:
        return {
            "name": name,
            "parent": parent,
            "live": 2,
            "zombies": zombies,
            "own": len(makers),
            "bytes": held,
            "own_bytes": 0,
            "pin": "tmpfs",
            "makers": makers,
        }

    held = count * 4096
    nodes = [
        node("/", -1, count + 8, held + 44_212_000, []),
        node("system.slice", 0, count, held, [["unit:unused-agent.service", count, held, "tmpfs"]]),
        node("kubepods", 0, 7, 44_212_000, []),
        node("burstable", 2, 5, 44_000_000, [[HOSTILE, 5, 44_000_000, "page_cache"]]),
        node("besteffort", 2, 2, 212_000, [["container:containerd", 2, 212_000, "page_cache"]]),
        node("user.slice", 0, 1, 0, [["session:1000", 1, 0, "socket"]]),
    ]
    return envelope("tree", nodes=nodes, merged=0)


def story_document(query: Mapping[str, str]) -> Json:
    life = [
        {"what": what, "at": at, "words": words}
        for what, at, words in (
            ("born", NOW - DAY, ""),
            ("died", NOW - DAY + 3, "after 3.1 s"),
            ("pinned", None, "for 20.5 h, by 1 page"),
            ("released", None, "not yet"),
        )
    ]
    pin = {
        "kind": "tmpfs",
        "words": "shared memory (tmpfs)",
        "path": "/dev/shm/<i>x",
        "path_in_fs": "/x",
        "fstype": "tmpfs",
        "pages": 1,
        "bytes": 4096,
        "sampled": False,
        "holder": None,
    }
    return envelope(
        "story",
        id=int(query["id"]),
        path=f"/system.slice/{HOSTILE}",
        parent="/system.slice",
        maker=HOSTILE,
        life=life,
        pins=[pin],
        refs={"total": 1},
        holders=["nobody: no process has the file open"],
        siblings=19_999,
        how="autopsy by bpf",
        freed_by=[{"action": "delete_file", "target": "x", "words": "delete the file", "together": False}],
        in_vain=[{"what": "drop_caches", "why": "it drops clean file pages alone"}],
        command=f"sudo zombiescope plan --zombie {query['id']}",
    )


def services_document() -> Json:
    def unit(name: str, verdict: str, can_loop: bool | None, restarts: int | None, rank: int) -> Json:
        return {
            "name": name,
            "path": f"/etc/systemd/system/{name}",
            "enabled": "enabled",
            "state": "running",
            "from_vendor": False,
            "restarts": restarts,
            "zombies": 20_000 if rank == 0 else 0,
            "restart_policy": "always",
            "can_loop": can_loop,
            "loop_why": "",
            "needed_by": [],
            "verdict": verdict,
            "why": f"why of {HOSTILE}",
            "evidence": [{"fact": "told by", "value": "role", "source": "x"}],
            "rank": rank,
        }

    units = [
        unit("unused-agent.service", "unneeded", True, 4711, 0),
        unit("odd.service", "unknown", None, None, 1),
        unit("ssh.service", "needed", False, 0, 2),
    ]
    return envelope(
        "services",
        subject="host",
        source="this host",
        units=units,
        findings=[],
        counts={"can_loop": 1, "unneeded": 1, "unknown": 1, "fine": 1},
    )


def checked() -> Json:
    """Whether it held, as `actions/1` tells it."""
    side = {"seconds": 600.0, "source": "window"}
    sides = [
        ("zombies", "at the end", 20_000, 0, "better"),
        ("restarts of the maker", "per hour", 4711.0, 0.0, "better"),
        ("one sweep", "seconds", 0.0044, 0.0045, "same"),
        ("poll latency", "seconds", None, None, "unknown"),
    ]
    rows = [
        {
            "what": what,
            "unit": unit,
            "before": {"value": one, **side},
            "after": {"value": two, **side},
            "verdict": verdict,
        }
        for what, unit, one, two, verdict in sides
    ]
    at, why = "2023-11-14T22:10:00Z", "20,000 zombies before, 0 now, none more in 600 s"
    newest = {"at": at, "verdict": "held", "why": why, "before": None, "after": None, "rows": rows}
    checks = [
        {"at": "2023-11-14T22:00:00Z", "verdict": "inconclusive", "why": "3 s are too short to tell"},
        {"at": at, "verdict": "held", "why": why},
    ]
    return {"verify": newest, "checks": checks}


def remedies_document() -> Json:
    step = {
        "n": 1,
        "name": "delete:/dev/shm/unused-agent",
        "title": "delete 20,000 files",
        "why": "they hold 20,000 zombies",
        "change": {"kind": "delete_files"},
        "risk": "high",
        "undo": "none",
        "undo_words": "none: it cannot be undone",
        "check": "zombiescope autopsy",
        "expected": {"zombies_freed": 20_000, "bytes_freed": 1},
        "needs_consent": True,
        "instead_of": [],
        "is_for_people": False,
    }
    action = {
        "id": "20261105T061100Z",
        "begun_at": "2026-11-05T06:11:00Z",
        "ended_at": "2026-11-05T06:11:04Z",
        "root": "",
        "zombies_freed": 20_000,
        "undo": "possible",
        "undo_with": "sudo zombiescope undo 20261105T061100Z",
        "restore_with": None,
        "kept": [],
        "journal": "x",
        "words": "",
        "steps": [
            {"name": "x", "title": "stop unused-agent.service", "status": "done", "zombies_freed": 20_000, "note": ""}
        ],
    }
    action |= checked()
    plan = {"id": "p", "findings": [], "zombies": 20_000, "out_of_reach": 0, "makers": [], "steps": [step]}
    return envelope(
        "remedies",
        plan=plan,
        commands={"look_first": "sudo zombiescope apply", "do_it": "sudo zombiescope apply --yes"},
        actions=[action],
    )


class Written:
    """All documents of one node. `changes`: by their name, what they say instead; None makes one an error."""

    def __init__(self, count: int = 20_000, **changes: Json | None) -> None:
        self.changes = changes
        self.mode, self.versions = "agent", 1
        self._zombies = {"zombies": zombies_document(count), "tree": tree_document(count)}
        opened = Opened("test", import_perf(small_capture().file(), TOOLS, "test"))
        self._profile = ProfileApi(
            opened, {"marks": [{"kind": "nic-reset", "seconds": 1.5, "label": "eth0 was reset"}], "gaps": []}
        )

    def answer(self, request: Request) -> Response | None:
        name = request.path.removeprefix("/api/v1/")
        if request.path == "/save.html" or not request.path.startswith("/api/"):
            return Site.answer(self, request) if request.path == "/save.html" else answer_static(request.path)  # type: ignore[arg-type,return-value]
        if name in self.changes:
            found = self.changes[name]
            return (
                _json(found) if found is not None else error_response(500, f"{name} broke", "for a test", "try again")
            )
        document = self._document(name, request.query)
        return _json(document) if document is not None else None

    def drop_late(self, now: float) -> None:
        """Nothing is worked out apart."""

    def close(self) -> None:
        """Nothing is left open."""

    def _document(self, name: str, query: Mapping[str, str]) -> Json | None:
        if name == "colours":
            return colours()
        if name.startswith("captures/"):
            return self._profile.answer(f"/api/{name.removeprefix('captures/')}", query)
        asked: dict[str, Callable[[Mapping[str, str]], Json]] = {
            "zombie": story_document,
            "range": range_document,
            "events": events_document,
            "compare": compare_document,
            "cores": cores_document,
        }
        told: dict[str, Callable[[], Json]] = {
            "page": self.pulse,
            "now": now_document,
            "series": series_document,
            "services": services_document,
            "remedies": remedies_document,
            "window": window_document,
        }
        if name in asked:
            return asked[name](query)
        if name == "follows":
            words = "1 of 50 network resets came within 30 s after an OOM report: this may be chance."
            return envelope(
                "follows",
                rows=[{"cause": "oom", "effect": "nic-reset", "p_value": 0.127, "is_telling": False, "words": words}],
            )
        if name == "captures":
            return envelope(
                "captures",
                captures=[
                    {
                        "name": "test",
                        "bytes": 1,
                        "written_at": NOW - 640,
                        "source": "perf",
                        "host": "node-c-0417",
                        "ring": False,
                        "is_damaged": False,
                    }
                ],
            )
        return told[name]() if name in told else self._zombies.get(name)

    def pulse(self) -> Json:
        documents = {
            name: {"version": str(self.versions), "status": "ready", "made_at": NOW}
            for name in ("now", "zombies", "tree", "services", "remedies", "series")
        }
        return envelope(
            "page",
            mode=self.mode,
            version="1.0.0",
            label="this host",
            now=NOW + 1,
            is_live=self.mode == "agent",
            poll_seconds=1 if self.mode == "agent" else None,
            views=["now", "zombies", "time", "cores", "profiles", "services", "remedies"],
            severity="critical",
            documents=documents,
            history={"from": NOW - 2 * DAY, "to": NOW, "interval_seconds": 10},
        )


def _json(document: Json) -> Response:
    return Response(200, "application/json; charset=utf-8", json.dumps(document).encode())
