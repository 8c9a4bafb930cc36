# SPDX-License-Identifier: Apache-2.0
"""A booted candidate: what was seen inside it; and judged, what loops within minutes of its first boot and what it would leak per
day."""

from dataclasses import dataclass

from zombiescope.diagnosis.gate import GateReason, GateVerdict
from zombiescope.diagnosis.thresholds import Thresholds

_DAY = 86400.0
_TELLING = 2
"""Lives in one window: a service that is started twice within minutes of a boot is being restarted."""


@dataclass(frozen=True, slots=True)
class BootedUnit:
    name: str
    restarts: int
    """In the window, or since boot where the window does not tell."""
    births: int
    zombies: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Booted:
    window_seconds: float
    boot_seconds: float
    """From power on to the end, on the host's clock."""
    zombies_first: int
    zombies_last: int
    births: int
    loops: tuple[BootedUnit, ...]
    kernel: str = ""

    @property
    def grown(self) -> int:
        return max(0, self.zombies_last - self.zombies_first)

    @property
    def zombies_per_day(self) -> float:
        return self.grown * 86400 / self.window_seconds


def judge_boot(booted: Booted, limits: Thresholds) -> list[GateReason]:
    reasons = [_loop(unit, booted) for unit in booted.loops if max(unit.restarts, unit.births) >= _TELLING]
    return [*reasons, _leak(booted, limits)]


def _loop(unit: BootedUnit, booted: Booted) -> GateReason:
    lives = unit.births or unit.restarts
    per_day = lives * _DAY / booted.window_seconds
    left = ""
    if unit.zombies is not None:
        left = f", {unit.zombies:,} memory cgroups left behind" if unit.zombies else ", no memory cgroup left behind"
    leaks = f": it would leak up to {per_day:,.0f} per day" if unit.zombies or unit.zombies is None else ""
    summary = f"{unit.name} was started {lives:,} times in {booted.window_seconds:.0f} s{left}{leaks} ({unit.why})"
    verdict = GateVerdict.CRITICAL if unit.zombies or unit.zombies is None else GateVerdict.WARNING
    return GateReason(f"boot-loop:{unit.name}", lives, _TELLING, verdict, summary, "inside the booted image")


def _leak(booted: Booted, limits: Thresholds) -> GateReason:
    per_day, grown = booted.zombies_per_day, booted.grown
    counted = f"{booted.zombies_first:,} to {booted.zombies_last:,} zombies in {booted.window_seconds:.0f} s after boot"
    births = f"{booted.births:,} memory cgroups of services born"
    if grown < limits.growth_least:
        least = f"{limits.growth_least:,.10g}"
        summary = f"{counted}, {births}: {grown:,} more are too few to tell a leak from noise, which takes {least}"
        return GateReason(
            "boot-leak", round(per_day), limits.zombies_warning, GateVerdict.OK, summary, "inside the booted image"
        )
    summary = f"{counted}, {births}: {per_day:,.0f} zombies per day"
    if per_day >= limits.zombies_critical:
        verdict, limit = GateVerdict.CRITICAL, limits.zombies_critical
    else:
        verdict = GateVerdict.WARNING if per_day >= limits.zombies_warning else GateVerdict.OK
        limit = limits.zombies_warning
    return GateReason("boot-leak", round(per_day), limit, verdict, summary, "inside the booted image")
