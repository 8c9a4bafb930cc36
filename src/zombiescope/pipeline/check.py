# SPDX-License-Identifier: Apache-2.0
"""The story of a check: measure, audit, compare, one verdict. A host, a bundle, an image, or a booted candidate for a while."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from zombiescope import pipeline
from zombiescope.analysis.knowledge import DeclaredNeed, KnowledgeBase
from zombiescope.analysis.scan import Population, derive_population
from zombiescope.analysis.trend import slope_per_second
from zombiescope.config import file_to_read, read_safely, thresholds_in
from zombiescope.diagnosis.boot import judge_boot
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.gate import (
    Gate,
    GateReason,
    GrowthSeen,
    Waiver,
    judge_counts,
    judge_gate,
    judge_growth,
    judge_units,
    unknown,
)
from zombiescope.diagnosis.limits import COMMON_NAMES, Limits, from_environment, parse_gate_file, with_values
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import ObservationError
from zombiescope.facts.cgroups import Census, Hierarchy, Identity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.access import Host, answers, names_or_nothing
from zombiescope.host.live import LiveHost
from zombiescope.host.safe_open import environment
from zombiescope.pipeline import audit as auditing
from zombiescope.pipeline.boot import BootTest, boot_candidate
from zombiescope.pipeline.opening import open_host
from zombiescope.pipeline.scan import observe, recorded_reclaim
from zombiescope.probes.readers.cgroup_census import read_census
from zombiescope.probes.readers.node import read_identity
from zombiescope.probes.readers.unit_files import UNREAD
from zombiescope.watching.cgroups import has_systemd
from zombiescope.watching.services import ServicesWindow

_AUDIT_SECONDS = 3.0
_STEPS = 60
_NOBODY = auditing.nobody("an image is not running")


_NOT_RECORDED = Gap("units", "a recording does not keep unit files", "check the host itself, or its root folder")


class Checked(NamedTuple):
    gate: Gate
    limits: Limits
    taken_at: float
    identity: Identity
    source: str
    gaps: tuple[Gap, ...]


class Watching(NamedTuple):
    """How growth is seen: by watching for a while, or in what an agent has kept."""

    seconds: float = 0.0
    state: bytes = b""


_USUAL = Thresholds()


class Progress(NamedTuple):
    window: Callable[[float], None] = lambda _: None
    image: Callable[[int, int], None] = lambda _done, _total: None


class Settings(NamedTuple):
    limits: Limits
    waivers: tuple[Waiver, ...]
    needs: tuple[DeclaredNeed, ...] = ()


def read_settings(file: bytes | None, flags: dict[str, float], *, is_live: bool = True) -> Settings:
    """Defaults, then the file (its thresholds, which every command has, then the gate's own), the environment, flags."""
    limits = Limits()
    waivers: tuple[Waiver, ...] = ()
    needs: tuple[DeclaredNeed, ...] = ()
    path = file_to_read(None if file is None else os.fsdecode(file)) if is_live or file is not None else None
    if path is not None:
        text, name = read_safely(path), shown(os.fsencode(path))
        said = parse_gate_file(text, name)
        limits = with_values(limits, {**_configured(thresholds_in(text, path)), **said.limits}, name)
        waivers, needs = tuple(Waiver(*waiver) for waiver in said.waivers), said.needs
    limits = from_environment(limits, environment("ZOMBIESCOPE_CHECK_"))
    return Settings(with_values(limits, flags, "the command line"), waivers, needs)


def _configured(thresholds: Thresholds) -> dict[str, object]:
    """The gate's limits that were set for every command. What is as usual stays the gate's own: it watches for minutes, and the
    agent for hours."""
    found: dict[str, object] = {}
    for name, common in COMMON_NAMES.items():
        if getattr(thresholds, common) != getattr(_USUAL, common):
            found[name] = getattr(thresholds, common)
    return found


def check(
    target: auditing.Target,
    knowledge: KnowledgeBase,
    settings: Settings,
    *,
    watching: Watching,
    progress: Progress,
    boot: BootTest | None = None,
) -> Checked:
    """What could not be looked at becomes a reason, never an exception."""
    host = open_host(target.root)
    reasons: list[GateReason] = [] if boot is None else _boot_reasons(boot, settings.limits, progress.window)
    gaps: tuple[Gap, ...] = ()
    untold: list[Gap] = []
    not_judged: tuple[str, ...] | None = None
    if target.image is None and not target.is_manifests_alone and not _is_unpacked_image(host, target):
        reasons += _counts(host, settings.limits, watching, progress.window, untold)
    if target.image is not None or auditing.has_files(host):
        window = ServicesWindow(_AUDIT_SECONDS, with_zombies=False)
        try:
            audited = auditing.audit(target, knowledge.with_needs(settings.needs), window, progress.image)
        except ObservationError as error:
            reasons.append(unknown("audit", Gap("units", f"{error.what}: {error.why}", error.hint)))
        else:
            reasons += _unit_reasons(audited, host, settings.limits)
            gaps = audited.gaps
            if not audited.audit.cannot_tell:
                not_judged = audited.audit.not_judged_names
    else:
        reasons.append(unknown("audit", _NOT_RECORDED))
    now = LiveHost().wall_clock()
    gate = judge_gate(reasons, settings.waivers, datetime.fromtimestamp(now, UTC).date(), not_judged)
    taken_at = now if host.is_live else host.wall_clock()
    return Checked(gate, settings.limits, taken_at, *_subject(host, target), (*gaps, *untold))


def _boot_reasons(test: BootTest, limits: Limits, progress: Callable[[float], None]) -> list[GateReason]:
    try:
        return judge_boot(boot_candidate(test, progress), limits.thresholds)
    except ObservationError as error:
        return [unknown("boot", Gap("boot", f"{error.what}: {error.why}", error.hint))]


def _subject(host: Host, target: auditing.Target) -> tuple[Identity, str]:
    if target.image is not None:
        return _NOBODY, shown(target.image)
    if target.is_manifests_alone:
        return _NOBODY, f"manifests in {shown(target.manifests or b'')}"
    return read_identity(host), host.label


def _is_unpacked_image(host: Host, target: auditing.Target) -> bool:
    """A folder with no /proc at all: nothing ran there that could have been counted."""
    if target.root is None or host.is_live or not auditing.has_files(host):
        return False
    if names_or_nothing(host, b"/proc"):
        return False
    return not any(answers(host.read, path) for path in (b"/proc/cgroups", b"/proc/self/mountinfo"))


def _counts(
    host: Host, limits: Limits, watching: Watching, progress: Callable[[float], None], untold: list[Gap]
) -> list[GateReason]:
    """`untold`: what is not known and no reason to judge otherwise is added to it."""
    seconds = watching.seconds
    case = Case((observe(host, with_bytes=False),), limits.thresholds, reclaim=recorded_reclaim(host))
    snapshot, population = case.last.snapshot, case.last.scan.population
    if isinstance(snapshot.sweep, Gap) and not isinstance(population, Gap):
        untold.append(snapshot.sweep.about("reasons[sweep]"))
    if seconds <= 0 or isinstance(snapshot.hierarchy, Gap) or isinstance(population, Gap):
        reasons = judge_counts(case)
        if seconds > 0 and isinstance(population, Gap):
            return [*reasons, judge_growth(population, limits.thresholds)]
        remembered = _remembered(host, watching.state)
        if isinstance(remembered, Gap):
            untold.append(remembered.about("reasons[growth]"))
            return reasons
        return [*reasons, judge_growth(remembered, limits.thresholds)] if remembered else reasons
    if not host.is_live:
        gap = Gap("growth", "a folder stands still: there is nothing to watch", "run --for on the booted candidate")
        return [*judge_counts(case), judge_growth(gap, limits.thresholds)]
    return _watched(host, case, limits, seconds, progress)


def _remembered(host: Host, state: bytes) -> GrowthSeen | Gap | None:
    """From the agent's history, where one is kept and is recent; a host without one is judged by its counts alone."""
    if not state or host.label != "this host":
        return None

    try:
        recent = pipeline.recall.recent_from_history(host, state)
    except ObservationError as error:
        return Gap("growth", f"{error.what}: {error.why}", error.hint)
    found = recent.growth if recent else None
    if found is None or isinstance(found, Gap) or found.total is None:
        return found if isinstance(found, Gap) else None
    trend = found.total
    return GrowthSeen(found.window_seconds, trend.now - trend.grown, trend.now, trend.slope.low * 3600)


def _watched(
    host: Host,
    case: Case,
    limits: Limits,
    seconds: float,
    progress: Callable[[float], None],
) -> list[GateReason]:
    """Look again and again; the worst look counts, and the slope over all of them."""
    start, hierarchy, first = host.monotonic(), case.last.snapshot.hierarchy, case.last.scan.population
    assert not isinstance(hierarchy, Gap)
    assert not isinstance(first, Gap)
    points = [(0.0, float(first.zombies))]
    worst = first
    while (over := host.monotonic() - start) < seconds:
        progress(over)
        host.wait(min(max(seconds / _STEPS, 1.0), seconds - over))
        seen = _population(host, hierarchy)
        if isinstance(seen, Gap):
            return [*judge_counts(_with(case, seen)), judge_growth(seen, limits.thresholds)]
        points.append((host.monotonic() - start, float(seen.zombies)))
        worst = max(worst, seen, key=lambda population: population.zombies)
    progress(seconds)
    growth = GrowthSeen(seconds, first.zombies, worst.zombies, slope_per_second(points) * 3600)
    return [*judge_counts(_with(case, worst)), judge_growth(growth, limits.thresholds)]


def _with(case: Case, population: Population | Gap) -> Case:
    look = case.last
    return case._replace(observations=(look._replace(scan=look.scan._replace(population=population)),))


def _population(host: Host, hierarchy: Hierarchy) -> Population | Gap:
    census = read_census(host, hierarchy)
    return derive_population(census) if isinstance(census, Census) else census


def _unit_reasons(audited: auditing.Audited, host: Host, limits: Limits) -> list[GateReason]:
    reasons = judge_units(audited.audit, limits)
    unread = [
        unit.name for unit in audited.services.files.units.values() if any(UNREAD in line for line in unit.problems)
    ]
    if unread:
        why = f"{len(unread)} unit files could not be read, such as {shown(unread[0].encode())}"
        reasons.append(unknown("audit", Gap("units", why, "zombiescope audit says why; as root more can be read")))
    if host.is_live and not audited.audit.was_systemd_asked and has_systemd(host):
        state = next(
            (gap for gap in audited.gaps if gap.fact == "units[].state"), Gap("units[].state", "systemd gave no answer")
        )
        reasons.append(unknown("looping-unit", state))
    return reasons
