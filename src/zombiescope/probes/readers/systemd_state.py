# SPDX-License-Identifier: Apache-2.0
"""What a running systemd says of its services, and the journal's restarts of the last hour: `systemctl show`, `journalctl`.

The answer is an experiment of the host, so a recording keeps it. No systemd: a gap.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from zombiescope.facts.gap import Gap
from zombiescope.facts.units import LiveUnit
from zombiescope.host.access import Host
from zombiescope.host.programs import RESTART_SCHEDULED, ask_program

_PROPERTIES = (
    "Id", "LoadState", "ActiveState", "SubState", "NRestarts", "Result", "ExecMainStatus", "MainPID", "ControlGroup",
)  # fmt: skip


def read_systemd_state(host: Host) -> dict[str, LiveUnit] | Gap:
    try:
        outcome = host.experiment("systemd-services", _show)
    except OSError as error:
        return Gap("units[].state", f"systemctl: {error.strerror or error}", "")
    if outcome is None:
        return Gap("units[].state", "the machine is not running here, and its recording did not keep systemd's answer")
    if "refused" in outcome:
        return Gap("units[].state", str(outcome["refused"]), "audit a machine that systemd runs, or use --root")
    return {unit.name: unit for unit in map(_unit, outcome.get("units", ())) if unit.name}


def read_journal_restarts(host: Host) -> dict[str, int] | Gap:
    try:
        outcome = host.experiment("journal-restarts", _journal)
    except OSError as error:
        return Gap("units[].restarts_in_journal", f"journalctl: {error.strerror or error}")
    if outcome is None or "refused" in outcome:
        return Gap(
            "units[].restarts_in_journal", str(outcome["refused"]) if outcome else "the journal was not recorded"
        )
    return {str(name): int(count) for name, count in dict(outcome.get("restarts", {})).items()}


def _show() -> dict[str, Any]:
    wanted = [f"--property={','.join(_PROPERTIES)}"]
    ran = ask_program("systemctl", "show", "--all", "--type=service", *wanted, "*.service")
    if ran is None:
        return {"refused": "systemctl is not installed"}
    # A unit that vanishes between the list and the question makes the status 1, with an answer for all others.
    if not ran.output.strip():
        return {"refused": ran.complaint.splitlines()[0] if ran.complaint else "systemctl gave no answer"}
    blocks = ran.output.decode("utf-8", "replace").split("\n\n")
    return {"units": [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in blocks]}


def _unit(said: dict[str, str]) -> LiveUnit:
    return LiveUnit(
        name=said.get("Id", ""),
        active_state=said.get("ActiveState", "unknown"),
        sub_state=said.get("SubState", ""),
        restarts=_number(said.get("NRestarts")),
        result=said.get("Result", ""),
        exit_status=_number(said.get("ExecMainStatus")),
        main_pid=_number(said.get("MainPID")) or None,
        control_group=said.get("ControlGroup", ""),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() else None


def _journal() -> dict[str, Any]:
    arguments = (
        "-b",
        "--since=-1h",
        "--output=json",
        "--output-fields=UNIT",
        "-n",
        "20000",
        f"MESSAGE_ID={RESTART_SCHEDULED}",
    )
    ran = ask_program("journalctl", *arguments)
    if ran is None:
        return {"refused": "journalctl is not installed"}
    if ran.status != 0 and not ran.output:
        return {"refused": ran.complaint.splitlines()[0] if ran.complaint else "there is no journal"}
    restarts: Counter[str] = Counter()
    for line in ran.output.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("UNIT"), str):
            restarts[entry["UNIT"]] += 1
    return {"restarts": dict(restarts)}
