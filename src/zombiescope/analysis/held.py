# SPDX-License-Identifier: Apache-2.0
"""Puts names to references that no page explains: the task, namespace or socket that was found to hold the zombie."""

from __future__ import annotations

from collections.abc import Iterable

from zombiescope.facts.holders import Holder
from zombiescope.facts.names import shown
from zombiescope.facts.zombies import Pin, PinKind, Zombie

_UNNAMED = (PinKind.OTHER, PinKind.SOCKET)


def is_unexplained(zombie: Zombie) -> bool:
    """It has references that nobody could name."""
    return any(pin.kind in _UNNAMED and pin.holder is None and pin.inode is None for pin in zombie.pins)


def explain(zombies: Iterable[Zombie], holders: Iterable[Holder]) -> tuple[Zombie, ...]:
    by_serial: dict[int, list[Holder]] = {}
    for holder in holders:
        by_serial.setdefault(holder.serial, []).append(holder)
    return tuple(_explained(zombie, by_serial.get(zombie.serial, ())) for zombie in zombies)


def _explained(zombie: Zombie, holders: Iterable[Holder]) -> Zombie:
    """Holders stand for the nameless references; if there are fewer of them than references, something else holds it too."""
    found = [_pin(holder) for holder in holders]
    if not found or not is_unexplained(zombie):
        return zombie
    rest = zombie.references.rest
    is_all = rest is not None and len(found) >= rest
    kept = [pin for pin in zombie.pins if not (is_all and pin.kind in _UNNAMED and pin.inode is None)]
    return zombie._replace(pins=(*kept, *found))


def _pin(holder: Holder) -> Pin:
    who = f"pid {holder.process} ({shown(holder.name)})"
    if holder.kind is PinKind.TASK:
        who += f", to be reaped by pid {holder.parent}"
    if holder.kind is PinKind.SOCKET:
        who += f", {holder.family} socket {holder.inode}"
    return Pin(holder.kind, None, None, None, None, holder.inode or None, None, sampled=False, holder=who)
