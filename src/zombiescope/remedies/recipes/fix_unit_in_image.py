# SPDX-License-Identifier: Apache-2.0
"""An agent in an image that nothing needs and that may be restarted for ever: a preset that keeps it off, and its links gone."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.diagnosis.audit import Subject
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.plan import PlaceFile, RemoveLinks, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation

REMEDIES = (Remedy.FIX_UNIT_IN_IMAGE,)

PRESET = b"/etc/systemd/system-preset/00-zombiescope.preset"


def propose(situation: Situation) -> Iterator[Draft]:
    audit = situation.audit
    if audit is None or audit.subject is Subject.HOST or not audit.risks:
        return
    names = [unit.name for unit in audit.risks]
    lines = "".join(f"disable {name}\n" for name in names)
    yield Draft(
        "preset",
        f"a preset that keeps {', '.join(names)} off, also when packages are installed or updated",
        PlaceFile(
            PRESET, f"# Placed by zombiescope: nothing here needs these, and they may loop for ever.\n{lines}".encode()
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
