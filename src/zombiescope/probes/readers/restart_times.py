# SPDX-License-Identifier: Apache-2.0
"""When systemd restarted which unit by itself, by the journal: the newest ones, with their times."""

from __future__ import annotations

import json
from typing import Any

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.services import UnitRestart
from zombiescope.host.access import Host, beside_recording
from zombiescope.host.live import LiveHost
from zombiescope.host.programs import RESTART_SCHEDULED, ask_program

FACT = "restarts"
_MOST = 5_000
_PLACES = (b"/run/log/journal", b"/var/log/journal")
"""A folder for each machine whose journal is kept."""


def read_restart_times(host: Host, since: float) -> tuple[UnitRestart, ...] | Gap:
    """In order of time. At most 5,000, the newest: what is older than the first of them may have been left out, or rotated away."""
    beneath = beside_recording(host)
    if beneath.is_live and beneath.label != LiveHost().label:
        return Gap(FACT, "the journal of a host mounted elsewhere is not asked", "run it on that host")
    try:
        outcome = host.experiment("restart-times", lambda: _journal(beneath, since))
    except OSError as error:
        return Gap(FACT, f"journalctl: {(error.strerror or str(error)).lower()}")
    if outcome is None:
        return Gap(FACT, "the journal was not recorded")
    if "refused" in outcome:
        return Gap(FACT, str(outcome["refused"]), "restarts are known where systemd keeps a journal")
    try:
        found = [UnitRestart(float(at), str(unit)) for at, unit in outcome["restarts"]]
    except (KeyError, TypeError, ValueError):
        return Gap(FACT, "the recorded restarts are not in a form we know", "record the host again")
    return tuple(sorted(each for each in found if each.at >= since))


def _journal(host: Host, since: float) -> dict[str, Any]:
    if not any(_folders(host, place) for place in _PLACES):
        return {"refused": "no journal is kept here"}  # journalctl itself says nothing of it
    ran = ask_program(
        "journalctl", "--quiet", f"--since=@{max(since, 0.0):.0f}", "--reverse", f"--lines={_MOST}", "--output=json",
        "--output-fields=UNIT", f"MESSAGE_ID={RESTART_SCHEDULED}",
    )  # fmt: skip
    if ran is None:
        return {"refused": "journalctl is not installed"}
    if ran.status != 0 and not ran.output:
        return {"refused": ran.complaint.splitlines()[0] if ran.complaint else "there is no journal"}
    found = [entry for line in ran.output.splitlines() if (entry := _entry(line)) is not None]
    return {"restarts": found}


def _folders(host: Host, place: bytes) -> list[bytes]:
    try:
        return host.subdirectories(place)
    except OSError:
        return []


def _entry(line: bytes) -> list[Any] | None:
    try:
        said = json.loads(line)
        at, unit = int(said["__REALTIME_TIMESTAMP"]) / 1e6, said["UNIT"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return [at, shown(unit.encode("utf-8", "replace"))] if isinstance(unit, str) else None
