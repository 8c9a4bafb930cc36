# SPDX-License-Identifier: Apache-2.0
"""What a recording keeps of an autopsy: all that was looked at, as one outcome, so that it replays to the same answer.

Scrubbed as paths are; process names, addresses and the list of live directories are left out. Bounded: beyond that many bytes
of text nothing is kept but the reason.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from zombiescope.analysis.census import Population
from zombiescope.errors import UsageError
from zombiescope.facts.beside import Beside
from zombiescope.facts.cgroups import Census, Hierarchy, Residuals
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_free_pins import DeletedTasks, PageFreePins, SocketCandidates
from zombiescope.facts.page_pins import PinnedFile
from zombiescope.facts.plain import Clean, of_plain, to_plain
from zombiescope.facts.zombies import Pin, Walk
from zombiescope.host.access import Host
from zombiescope.pipeline.autopsy import Evidence

NAME = "autopsy"
MOST_TEXT = 64 << 20
_HELD = re.compile(r"(pid \d+) \(.*\)(, to be reaped by pid \d+|, \w+ socket \d+)?", re.DOTALL)
_NAMELESS = b""


class _Kept(NamedTuple):
    """Evidence, with every type where it can be looked up."""

    taken_at: float
    hierarchy: Hierarchy
    census: Census | Gap
    walk: Walk
    population: Population | None
    residuals: Residuals | Gap
    files: tuple[PinnedFile, ...]
    pins: PageFreePins | None
    gaps: tuple[Gap, ...]


def keep(evidence: Evidence, clean: Clean, most: int = MOST_TEXT) -> dict[str, Any]:
    """Plain JSON for a recording."""
    kept = {"evidence": to_plain(_without_names(evidence), _Kept, clean)}
    size = len(json.dumps(kept))
    if size > most:
        return {"why": f"the autopsy is {size >> 20} MiB as text, and a recording keeps {most >> 20} MiB"}
    return kept


def recall(host: Host) -> Evidence | str:
    """What a recording kept, or why it kept nothing; without a word where nobody looked."""
    outcome = host.experiment(NAME, dict)
    if not outcome or "evidence" not in outcome:
        return str((outcome or {}).get("why", ""))
    try:
        kept = of_plain(outcome["evidence"], _Kept)
    except ValueError as error:
        why = f"its autopsy is not as one is kept ({error})"
        raise UsageError(f"cannot use {host.label}", why, "make a new one: zombiescope record FILE") from error
    assert isinstance(kept, _Kept)
    taken_at, hierarchy, census, walk, population, residuals, files, pins, gaps = kept
    return Evidence(taken_at, hierarchy, census, walk, population, residuals, Beside(files, pins), gaps)


def _without_names(evidence: Evidence) -> _Kept:
    taken_at, hierarchy, census, walk, population, residuals, beside, gaps = evidence
    if isinstance(census, Census):
        census = census._replace(tree=None)
    files = tuple(file._replace(pin=_unnamed(file.pin)) for file in beside.files)
    pins = beside.pins and _page_free(beside.pins)
    return _Kept(taken_at, hierarchy, census, _walk(walk), population, residuals, files, pins, gaps)


def _walk(walk: Walk) -> Walk:
    zombies = [
        zombie._replace(pins=tuple(map(_unnamed, zombie.pins)))
        if any(pin.holder is not None for pin in zombie.pins)
        else zombie
        for zombie in walk.zombies
    ]
    return walk._replace(zombies=tuple(zombies))


def _unnamed(pin: Pin) -> Pin:
    if pin.holder is None:
        return pin
    found = _HELD.fullmatch(pin.holder)
    return pin._replace(holder=found[1] + (found[2] or "") if found else pin.holder.partition(" (")[0])


def _page_free(pins: PageFreePins) -> PageFreePins:
    tasks, sockets = pins.tasks, pins.sockets
    if isinstance(tasks, DeletedTasks):
        tasks = tasks._replace(tasks=tuple(task._replace(name=_NAMELESS) for task in tasks.tasks))
    if isinstance(sockets, SocketCandidates):
        sockets = sockets._replace(dead=tuple(one._replace(local="", remote="") for one in sockets.dead))
    return pins._replace(tasks=tasks, sockets=sockets)
