# SPDX-License-Identifier: Apache-2.0
"""The limits of the gate: defaults, then a file, then the environment, then flags. Each value knows where it came from."""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple

from zombiescope.analysis.knowledge import DeclaredNeed, parse_needs
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import UsageError

PREFIX = "ZOMBIESCOPE_CHECK_"
_COMMON = {
    "growth_warning": "growth_warning_per_hour",
    "growth_critical": "growth_critical_per_hour",
    "sweep_warning": "sweep_warning_seconds",
    "sweep_critical": "sweep_critical_seconds",
    "directories_warning": "empty_directories_warning",
    "directories_critical": "empty_directories_critical",
}
"""What every command's thresholds call a limit of the gate, where that is another name."""
COMMON_NAMES = {
    name: _COMMON.get(name, name)
    for name in (
        "zombies_warning", "zombies_critical", "ratio_warning", "ratio_critical", "ratio_least_zombies",
        "ratio_critical_zombies", "expected_live", "expected_multiple", "growth_warning", "growth_critical", "growth_least",
        "sweep_warning", "sweep_critical", "directories_warning", "directories_critical",
    )
}  # fmt: skip
"""The limits that are thresholds of every command, too, and their names there."""


class Limits(NamedTuple):
    thresholds: Thresholds = Thresholds()
    loops_warning: float = 1
    """Units and containers that are restarted over and over: of these only a gate counts how many there are."""
    loops_critical: float = 10

    def of(self, name: str) -> float:
        """A limit by the name that a person gives it."""
        value = getattr(self.thresholds, COMMON_NAMES[name]) if name in COMMON_NAMES else getattr(self, name)
        assert isinstance(value, int | float)
        return value


NAMES = (*COMMON_NAMES, "loops_warning", "loops_critical")


def with_values(limits: Limits, values: Mapping[str, object], source: str) -> Limits:
    """Raises UsageError for a name that is none and a value that is no number."""
    changed: dict[str, Any] = {}
    for name, value in values.items():
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, 1)
            raise UsageError(
                f"cannot use {source}",
                f"there is no limit {name!r}",
                f"did you mean {near[0]}?" if near else ", ".join(NAMES),
            )
        changed[name] = _number(value, name, source)
    common = {COMMON_NAMES[name]: value for name, value in changed.items() if name in COMMON_NAMES}
    own = {name: value for name, value in changed.items() if name not in COMMON_NAMES}
    return limits._replace(thresholds=limits.thresholds._replace(**common), **own)


def _number(value: object, name: str, source: str) -> float:
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1.0
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise UsageError(f"cannot use {source}", f"{name} = {value!r} is not a number of at least 0", f"{name} = 1000")
    return number


def from_environment(limits: Limits, variables: Mapping[str, str]) -> Limits:
    values = {name.removeprefix(PREFIX).lower(): value for name, value in variables.items() if name.startswith(PREFIX)}
    return with_values(limits, values, "the environment")


@dataclass(frozen=True, slots=True)
class GateFile:
    limits: Mapping[str, object]
    waivers: tuple[tuple[str, str, date, str], ...]
    """What, reason, end, owner."""
    needs: tuple[DeclaredNeed, ...] = ()


def parse_gate_file(text: bytes, source: str) -> GateFile:
    """`[check]` with limits, `[[waiver]]` with what, reason, expires and owner, `[[need]]` with unit and reason."""
    try:
        data = tomllib.loads(text.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot use {source}", str(error), "it must be TOML in UTF-8") from error
    wrong = set(data) - {"check", "waiver", "need", "agent", "thresholds"}
    if wrong:
        raise UsageError(
            f"cannot use {source}",
            f"unknown table {min(wrong)!r}",
            "[thresholds], [check], [[waiver]] and [[need]] are known",
        )
    limits, waivers = data.get("check", {}), data.get("waiver", [])
    if not isinstance(limits, dict) or not isinstance(waivers, list):
        raise UsageError(
            f"cannot use {source}", "check must be a table and waiver an array of tables", "[check], [[waiver]]"
        )
    return GateFile(
        limits, tuple(_waiver(entry, source) for entry in waivers), parse_needs(data.get("need", []), source)
    )


def _waiver(entry: object, source: str) -> tuple[str, str, date, str]:
    said = entry if isinstance(entry, dict) else {}
    what, reason, expires = said.get("what"), said.get("reason"), said.get("expires")
    if isinstance(expires, datetime):
        expires = expires.date()
    if isinstance(expires, str):
        try:
            expires = date.fromisoformat(expires)
        except ValueError:
            expires = None
    if not (
        isinstance(what, str) and what and isinstance(reason, str) and reason.strip() and isinstance(expires, date)
    ):
        hint = 'what = "unneeded-agent:snapd*", reason = "needed until the move", expires = 2027-01-31'
        raise UsageError(f"cannot use {source}", "a waiver needs what, reason and expires", hint)
    owner = said.get("owner", "")
    if not isinstance(owner, str):
        raise UsageError(
            f"cannot use {source}", f"the owner of the waiver {what!r} is no text", 'owner = "team Platform"'
        )
    return what, reason, expires, owner.strip()
