# SPDX-License-Identifier: Apache-2.0
"""The story of a boot test: make the candidate ready, boot it, let our program watch from inside, hear what it says."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from zombiescope.diagnosis.boot import Booted, BootedUnit
from zombiescope.diagnosis.rules import crash_looping_unit, looping_container
from zombiescope.errors import UsageError
from zombiescope.facts.names import shown
from zombiescope.host.boot import PROGRAM, Given, Heard, boot, cannot, is_program, is_readable, prepare, workplace

_ALLOWANCE_SECONDS = 420.0
"""For the boot itself and for our own commands, under emulation, on a machine that has other work."""
_TIMES = 3.0
_WORDS = 300
_PARTS = ("first", "audit", "last")
_SCRIPT = (
    "Z='{command}'; T=/dev/ttyS1; i=0; "
    'while [ $$i -lt 45 ] && [ "$$(systemctl is-system-running 2>/dev/null)" = starting ]; do sleep 1; i=$$((i+1)); done; '
    "say() {{ echo ZS-BEGIN $$1; cat /run/zombiescope-boot.$$1; echo; echo ZS-END $$1; }} >$$T; "
    'ask() {{ n=$$1; shift; $$Z "$$@" --json >/run/zombiescope-boot.$$n 2>/run/zombiescope-boot.error || :; say $$n; }}; '
    "ask first scan; ask audit audit --all --seconds {seconds:.0f}; ask last scan; "
    "echo ZS-BEGIN error >$$T; cat /run/zombiescope-boot.error >$$T; echo ZS-END all >$$T; systemctl poweroff --force --force"
)
_UNIT = """[Unit]
Description=Zombiescope watches this boot
DefaultDependencies=no

[Service]
ExecStart=/bin/sh -c '{script}'
StandardOutput=null
StandardError=null
Delegate=yes
"""


class BootTest(NamedTuple):
    image: bytes
    given: Given
    seconds: float
    accel: str = "tcg"


def boot_candidate(test: BootTest, progress: Callable[[float], None]) -> Booted:
    """Raises ObservationError (`cannot boot … here`) and UsageError."""
    for path in (test.image, test.given.program, test.given.kernel, test.given.initrd):
        if path is not None and not is_readable(path):
            raise UsageError(
                f"cannot read {shown(path)}", "there is no such file, or it may not be read", "give a file"
            )
    command = PROGRAM if is_program(test.given.program) else f"python3 {PROGRAM}"
    script = _SCRIPT.format(command=command, seconds=test.seconds).replace("'", '"')
    with workplace() as folder:
        candidate = prepare(test.image, test.given, _UNIT.format(script=script), folder)
        limit = _ALLOWANCE_SECONDS + _TIMES * test.seconds

        def until(told: bytes, seconds: float) -> bool:
            progress(min(seconds, test.seconds))
            return b"ZS-END all" in told or seconds > limit

        heard = boot(test.image, candidate, test.accel, folder, until)
    return _booted(test, heard)


def _booted(test: BootTest, heard: Heard) -> Booted:
    parts = {name: _part(heard.told, name) for name in _PARTS}
    missing = next((name for name, part in parts.items() if part is None), None)
    if missing is not None:
        raise cannot(test.image, _why_silent(heard, missing))
    first, audit, last = (parts[name] or {} for name in _PARTS)
    units = [unit for unit in audit.get("units", []) if isinstance(unit, dict)]
    by_name = {str(unit.get("name")): unit for unit in units}
    loops = [
        _unit(name, by_name.get(name, {}), why)
        for name, why in _looping(audit)
        if not name.startswith("zombiescope-boot")
    ]
    return Booted(
        window_seconds=test.seconds,
        boot_seconds=heard.seconds,
        zombies_first=_zombies(first, test),
        zombies_last=_zombies(last, test),
        births=sum(_count(unit.get("births")) for unit in units),
        loops=tuple(loops),
        kernel=str((audit.get("host") or {}).get("kernel") or ""),
    )


def _looping(audit: dict[str, Any]) -> list[tuple[str, str]]:
    """Named by the findings of the audit inside, whatever it says of what they leave: that is counted here."""
    found = []
    for finding in audit.get("findings", []):
        if finding.get("id") in (crash_looping_unit.FINDING.id, looping_container.FINDING.id):
            for evidence in finding.get("evidence", []):
                name, _, what = str(evidence.get("fact", "")).rpartition(".")
                if what != "restarts":
                    continue
                told = re.search(re.escape(name) + r": ([^;]*)", str(finding.get("summary")))
                found.append((name, told[1] if told else "restarted over and over"))
    return found


def _unit(name: str, unit: dict[str, Any], why: str) -> BootedUnit:
    zombies = unit.get("zombies")
    known = zombies if isinstance(zombies, int) else None
    return BootedUnit(
        shown(name.encode()), _count(unit.get("restarts")), _count(unit.get("births")), known, shown(why.encode())
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _zombies(scan: dict[str, Any], test: BootTest) -> int:
    found = (scan.get("memcg") or {}).get("zombies")
    if not isinstance(found, int):
        raise cannot(test.image, "its zombies could not be counted: it has no memory cgroups that we can read")
    return found


def _part(told: bytes, name: str) -> dict[str, Any] | None:
    said = re.search(rb"ZS-BEGIN " + name.encode() + rb"\r?\n(.*?)\r?\nZS-END " + name.encode(), told, re.DOTALL)
    try:
        part = json.loads(said[1]) if said else None
    except (ValueError, RecursionError):
        return None
    return part if isinstance(part, dict) else None


def _why_silent(heard: Heard, missing: str) -> str:
    words = shown(b" | ".join(line.strip() for line in heard.console.strip().splitlines()[-3:]))[-_WORDS:]
    tail = f"; its console's last words: {words}" if words else "; its console said nothing"
    if b"ZS-BEGIN" in heard.told:
        said = shown(heard.told.rpartition(b"ZS-BEGIN error")[2].strip()[:_WORDS])
        return f"our program inside gave no answer to {missing!r}: {said}{tail}"
    how = "the machine ended" if heard.has_ended else f"nothing was heard for {heard.seconds:.0f} s"
    return f"{how} before our program inside could speak{tail}"
