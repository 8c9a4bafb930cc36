# SPDX-License-Identifier: Apache-2.0
"""What a running systemd says of its services, and the journal's restarts of the last hour: `systemctl show`, `journalctl`.

The answer is an experiment of the host, so a recording keeps it. No systemd: a gap.
"""

import json
from collections import Counter
from typing import Any

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.units import LiveUnit, UnitRestart
from zombiescope.host.access import Host, beside_recording, names_or_nothing
from zombiescope.host.children import RESTART_SCHEDULED, ask_program
from zombiescope.host.live import LiveHost

_PROPERTIES = "--property=Id,LoadState,ActiveState,SubState,NRestarts,Result,ExecMainStatus,ControlGroup"


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
    ran = ask_program("systemctl", "show", "--all", "--type=service", _PROPERTIES, "*.service")
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
        control_group=said.get("ControlGroup", ""),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() else None


def _journal() -> dict[str, Any]:
    if isinstance(lines := _journal_lines("-b", "--since=-1h", "-n", "20000"), str):
        return {"refused": lines}
    restarts: Counter[str] = Counter()
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("UNIT"), str):
            restarts[entry["UNIT"]] += 1
    return {"restarts": dict(restarts)}


def _journal_lines(*which: str) -> list[bytes] | str:
    """Of restarts; or why there are none."""
    wanted = ("--output=json", "--output-fields=UNIT", f"MESSAGE_ID={RESTART_SCHEDULED}")
    if (ran := ask_program("journalctl", *which, *wanted)) is None:
        return "journalctl is not installed"
    if ran.status != 0 and not ran.output:
        return ran.complaint.splitlines()[0] if ran.complaint else "there is no journal"
    return ran.output.splitlines()


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
        outcome = host.experiment("restart-times", lambda: _restarts_kept(beneath, since))
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


def _restarts_kept(host: Host, since: float) -> dict[str, Any]:
    if not any(names_or_nothing(host, place) for place in _PLACES):
        return {"refused": "no journal is kept here"}  # journalctl itself says nothing of it
    lines = _journal_lines("--quiet", f"--since=@{max(since, 0.0):.0f}", "--reverse", f"--lines={_MOST}")
    return {"refused": lines} if isinstance(lines, str) else {"restarts": list(filter(None, map(_entry, lines)))}


def _entry(line: bytes) -> list[Any] | None:
    try:
        said = json.loads(line)
        at, unit = int(said["__REALTIME_TIMESTAMP"]) / 1e6, said["UNIT"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return [at, shown(unit.encode("utf-8", "replace"))] if isinstance(unit, str) else None
