# SPDX-License-Identifier: Apache-2.0
"""Units of systemd: one that loops is stopped or slowed down, one that nothing needs is kept from starting, here or in the image,
and one that is needed gets a slice of its own."""

from collections.abc import Iterator

from zombiescope.analysis.maker import unit_maker
from zombiescope.diagnosis.audit import AuditSubject, UnitAudit
from zombiescope.diagnosis.workload_audit import Need
from zombiescope.facts.names import zombies_said
from zombiescope.facts.reaping import Levers
from zombiescope.remedies.choice import Draft, Situation
from zombiescope.remedies.plan import PlaceFile, PlaceLink, RemoveLinks, Risk, StopUnit, Undo

_UNIT_FOLDER = "/etc/systemd/system"
"""A unit of the vendor's is masked by a link there. Where it has the unit itself a mask has no place, so its links go."""
_BURST, _LEAST_DELAY_SECONDS = 5, 30
_FINDINGS = {"unit": "crash-looping-unit", "inside": "looping-container"}
_OWN_SLICE = (
    b"# Placed by zombiescope: what this unit leaves behind is counted and freed apart.\n[Service]\nSlice=churn.slice\n"
)


def limit_restarts(situation: Situation) -> Iterator[Draft]:
    """A unit that loops and may be needed: a start limit that can trip and a longer delay; it then fails loudly, once."""
    for loop in situation.loops:
        unit = situation.unit(loop.name)
        if unit is None or loop.kind != "unit" or unit.need is Need.UNNEEDED or unit.policy.can_trip:
            continue
        yield Draft(
            f"limit:{unit.name}",
            f"limit the restarts of {unit.name}: after {_BURST} in a row it stays stopped",
            PlaceFile(f"{_UNIT_FOLDER}/{unit.name}.d/50-zombiescope-restarts.conf".encode(), _drop_in(unit)),
            f"{unit.name}: {loop.why}; {unit.policy.why}; is it needed? {unit.need}: {unit.why}",
            "crash-looping-unit",
            f"systemctl show -p StartLimitIntervalUSec,RestartUSec {unit.name}",
            Risk.MEDIUM,
            Undo.EXACT,
            needs_consent=True,
            maker=unit_maker(unit.name),
        )


def _drop_in(unit: UnitAudit) -> bytes:
    """The interval is twice what the burst takes, so it trips also when each run lasts as long as the delay."""
    delay = max(unit.policy.delay_seconds or 0, _LEAST_DELAY_SECONDS)
    return (
        "# Placed by zombiescope: the unit was restarted for ever and left a zombie memory cgroup with every run.\n"
        f"[Unit]\nStartLimitIntervalSec={round(2 * _BURST * delay)}\nStartLimitBurst={_BURST}\n"
        f"[Service]\nRestartSec={round(delay)}\n"
    ).encode()


def stop_looping_unit(situation: Situation) -> Iterator[Draft]:
    """A unit that is restarted over and over, and that nothing is known to need: stop it. It is kept from starting again where it
    is known that nothing needs it, or where it loops inside itself, where no start limit counts."""
    for loop in situation.loops:
        unit = situation.unit(loop.name)
        if unit is None or loop.kind not in _FINDINGS or unit.need is Need.NEEDED:
            continue
        left = f" and has left {zombies_said(unit.zombies)}" if unit.zombies else ""
        why = f"{loop.name}: {loop.why}{left}; {unit.why}"
        steps = _stop_and_keep_stopped(unit, situation.levers, _FINDINGS[loop.kind], why)
        if loop.kind == "unit" and unit.need is Need.UNKNOWN:  # its restarts are limited: whoever starts it again may
            steps = (step for step in steps if step.name.startswith("stop:"))
        yield from steps


def own_slice(situation: Situation) -> Iterator[Draft]:
    """A unit that is needed and makes cgroups all the time gets a slice of its own: reclaim can then be aimed at it alone."""
    for loop in situation.loops:
        unit = situation.unit(loop.name)
        if unit is None or loop.kind not in ("unit", "inside") or unit.need is not Need.NEEDED:
            continue
        yield Draft(
            f"slice:{unit.name}",
            f"give {unit.name} a slice of its own, from its next start on",
            PlaceFile(f"{_UNIT_FOLDER}/{unit.name}.d/50-zombiescope-slice.conf".encode(), _OWN_SLICE),
            f"{unit.name} is needed ({unit.why}) and makes cgroups: {loop.why}",
            "crash-looping-unit" if loop.kind == "unit" else "looping-container",
            f"systemctl show -p Slice {unit.name}",
            Risk.LOW,
            Undo.EXACT,
            maker=unit_maker(unit.name),
        )


def disable_unneeded_agent(situation: Situation) -> Iterator[Draft]:
    """An agent that is enabled and has nothing to serve: stop it and keep it stopped, before it loops."""
    audit = situation.audit
    if audit is None or audit.subject is not AuditSubject.HOST:
        return
    looping = {loop.name for loop in audit.loops}
    for unit in audit.unneeded:
        if unit.name not in looping:
            why = f"{unit.name} has nothing to serve: {unit.why}"
            for draft in _stop_and_keep_stopped(unit, situation.levers, "unneeded-agent", why):
                yield draft._replace(needs_consent=True)


def _stop_and_keep_stopped(unit: UnitAudit, levers: Levers, finding: str, why: str) -> Iterator[Draft]:
    consent = unit.need is not Need.UNNEEDED
    risk, maker = Risk.MEDIUM if consent else Risk.LOW, unit_maker(unit.name)
    if levers.has_systemd:
        yield Draft(
            f"stop:{unit.name}",
            f"stop {unit.name} and wait until it is gone",
            StopUnit(unit.name),
            why,
            finding,
            f"systemctl is-active {unit.name}",
            risk,
            Undo.RESTART,
            consent,
            maker=maker,
        )
    check, links = f"systemctl is-enabled {unit.name}", levers.enabling_links.get(unit.name, ())
    if unit.path and not unit.path.startswith((f"{_UNIT_FOLDER}/", "/run/")):
        yield Draft(
            f"mask:{unit.name}",
            f"mask {unit.name}, so that nothing starts it",
            PlaceLink(f"{_UNIT_FOLDER}/{unit.name}".encode(), b"/dev/null"),
            why,
            finding,
            check,
            risk,
            Undo.EXACT,
            consent,
            maker=maker,
        )
    elif links:
        yield Draft(
            f"disable:{unit.name}",
            f"disable {unit.name}, so that no boot starts it",
            RemoveLinks(links),
            why,
            finding,
            check,
            risk,
            Undo.EXACT,
            consent,
            maker=maker,
        )


def fix_unit_in_image(situation: Situation) -> Iterator[Draft]:
    """An agent that nothing needs and that may be restarted for ever: a preset that keeps it off, and its links gone."""
    audit = situation.audit
    if audit is None or audit.subject is AuditSubject.HOST or not audit.risks:
        return
    names = [unit.name for unit in audit.risks]
    lines = "".join(f"disable {name}\n" for name in names)
    yield Draft(
        "preset",
        f"a preset that keeps {', '.join(names)} off, also when packages are installed or updated",
        PlaceFile(
            b"/etc/systemd/system-preset/00-zombiescope.preset",
            f"# Placed by zombiescope: nothing here needs these, and they may loop for ever.\n{lines}".encode(),
        ),
        "; ".join(f"{unit.name}: {unit.why}" for unit in audit.risks),
        "image-risk",
        f"systemctl --root=DIR is-enabled {names[0]}",
        Risk.LOW,
        Undo.EXACT,
    )
    for unit in audit.risks:
        links = situation.levers.enabling_links.get(unit.name, ())
        if links:
            yield Draft(
                f"disable:{unit.name}",
                f"disable {unit.name}: remove the links that start it",
                RemoveLinks(links),
                f"{unit.name}: {unit.why}",
                "image-risk",
                f"systemctl --root=DIR is-enabled {unit.name}",
                Risk.LOW,
                Undo.EXACT,
            )
