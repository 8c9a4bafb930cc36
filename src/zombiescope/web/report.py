# SPDX-License-Identifier: Apache-2.0
"""The doctor's answer as one file: the page itself with its documents inside, for a browser that asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zombiescope import __version__
from zombiescope.analysis.day import Day
from zombiescope.facts.gap import Gap
from zombiescope.presenters.doctor_report import Report, render_doctor_markdown, render_follows, render_timeline
from zombiescope.presenters.document import render_page_host
from zombiescope.presenters.now_json import Now, render_now
from zombiescope.web.one_file import one_file

Json = dict[str, Any]
_API = "/api/v1/"
_NO_DAY = Gap("numbers[].day", "no history of this host is kept", "zombiescope agent")


def doctor_page(report: Report, more: Mapping[str, Json] | None = None, day: Day | Gap = _NO_DAY) -> str:
    """`more`: further documents, by the last part of their address."""
    found: dict[str, Json] = {"now": render_now(Now(report.case, report.diagnosis, report.plan, day)), **(more or {})}
    timeline = report.timeline
    if timeline is not None:
        found["events"] = render_timeline(timeline)
        follows = {"schema": "zombiescope.follows/1", "from": timeline.begin, "to": timeline.end, "gaps": []}
        found["follows"] = {**follows, "rows": render_follows(report.correlations)}
    found["page"] = _about(report, list(found))
    return one_file({_API + name: document for name, document in found.items()}, render_doctor_markdown(report))


def _about(report: Report, inside: list[str]) -> Json:
    snapshot = report.case.last.snapshot
    views = [name for name in ("now", "zombies", "services", "remedies") if name in inside]
    return {
        "schema": "zombiescope.page/1",
        "mode": "file",
        "version": __version__,
        "label": snapshot.source,
        "host": render_page_host(snapshot.identity, snapshot.hierarchy, snapshot.shape),
        "at": snapshot.taken_at,
        "now": snapshot.taken_at,
        "is_live": False,
        "poll_seconds": None,
        "views": [*views[:2], "time", "cores", *views[2:]] if "events" in inside else views,
        "severity": report.diagnosis.worst,
        "documents": {},
        "history": None,
        "gaps": [],
    }
