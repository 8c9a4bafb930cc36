# SPDX-License-Identifier: Apache-2.0
"""An agent life-cycle policy of a host or an image in Markdown: what runs, why, whose it is, when to look again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from zombiescope.diagnosis.audit import Audit, UnitAudit
from zombiescope.diagnosis.need import Need
from zombiescope.facts.names import shown
from zombiescope.facts.units import Schedule

_QUARTER = timedelta(days=91)
_TITLES = {
    Need.UNNEEDED: "To be removed: enabled, and nothing needs it",
    Need.UNKNOWN: "To be decided: nobody could say whether it is needed",
    Need.NEEDED: "Kept",
}


def render_policy(audit: Audit, schedules: Iterable[Schedule], source: str, at: float) -> str:
    made = datetime.fromtimestamp(at, UTC)
    lines = [
        f"# Agents on {_cell(source)}",
        "",
        f"Audited {made:%Y-%m-%d} by `zombiescope export policy`.",
        f"Next audit: **{made + _QUARTER:%Y-%m-%d}** (quarterly), and whenever the image changes.",
        "",
        "Rules: every service that starts by itself has an owner and a reason.",
        "One that has neither by the next audit is disabled in the image.",
        "One that may be restarted for ever gets a start limit (`StartLimitIntervalSec=300`, `StartLimitBurst=5`).",
    ]
    for need, title in _TITLES.items():
        units = [unit for unit in audit.starting if unit.need is need]
        lines += ["", f"## {title} ({len(units)})", ""]
        lines += [*_table(units)] if units else ["None."]
    listed = list(schedules)
    lines += ["", f"## Started by cron or SysV scripts ({len(listed)})", ""]
    lines += [f"- `{_cell(one.path)}` {_cell(one.when)}".rstrip() for one in listed] or ["None."]
    return "\n".join(lines)


def _table(units: list[UnitAudit]) -> Iterable[str]:
    yield "| service | enabled | loops for ever | makes cgroups | why | owner |"
    yield "|---|---|---|---|---|---|"
    for unit in units:
        loops = "yes" if unit.may_loop else ("?" if unit.policy.can_loop is None else "no")
        makes = {True: "yes", False: "no", None: "?"}[unit.makes_cgroups]
        yield f"| `{_cell(shown(unit.name.encode()))}` | {unit.enabled} | {loops} | {makes} | {_cell(unit.why)} | |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'").replace("<", "&lt;")
