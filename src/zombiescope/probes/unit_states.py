# SPDX-License-Identifier: Apache-2.0
"""Is a unit enabled? The word that `systemctl --root=DIR list-unit-files` gives, worked out from links alone.

The rules are those of systemd's install.c: a link in a `.wants` or `.requires` folder, or one of the names in `Alias=`,
makes it enabled; a link under another name makes it indirect; `[Install]` without a link is disabled; none is static.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from zombiescope.facts.units import UnitFile
from zombiescope.host.files import Kind
from zombiescope.probes.unit_layout import CONFIG, Layout, is_generated, is_runtime
from zombiescope.probes.unit_text import template_of

_RULES = ("WantedBy", "RequiredBy", "UpheldBy", "Alias")


@dataclass(frozen=True, slots=True)
class _Mark:
    """A link that mentions a unit: in which folder, under which name."""

    folder: bytes
    name: str
    is_same_name: bool


@dataclass(slots=True)
class Enablement:
    layout: Layout
    _marks: dict[str, list[_Mark]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for folder, _, _, name in self.layout.links:
            for marked in {name, template_of(name)} - {""}:
                self._marks[marked].append(_Mark(folder, name, False))
        for places in self.layout.places.values():
            for place in places:
                if place.entry.kind is Kind.LINK:
                    target = place.entry.target.rpartition(b"/")[2].decode("utf-8", "replace")
                    self._marks[target].append(_Mark(place.folder, place.name, place.name == target))
                    if place.name != target:
                        self._marks[place.name].append(_Mark(place.folder, place.name, False))

    def word(self, unit: UnitFile, folder: bytes) -> str:
        """`folder` is the one of the search path in which the unit was found."""
        if is_generated(folder):
            return "generated"
        if folder == b"/run/systemd/transient":
            return "transient"
        known = {unit.name, *unit.words("Install", "Alias"), *_default_instance(unit)}
        found = self._found(unit.name, folder, known)
        if found:
            return found
        if self._found(unit.name, folder, None):
            return "indirect"
        if any(unit.words("Install", key) for key in _RULES):
            return "disabled"
        return "indirect" if unit.words("Install", "Also") else "static"

    def _found(self, name: str, own: bytes, known: set[str] | None) -> str:
        marks = self._marks.get(name, ())
        below = self.layout.folders[self.layout.folders.index(own) + 1 :] if own in self.layout.folders else []
        plain = [m for m in marks if not m.is_same_name and (known is None or m.name in known)]
        plain = [m for m in plain if not (m.name == name and m.folder in below and self._is_own_link(m, name))]
        if any(m.folder == CONFIG for m in plain):
            return "enabled"
        if any(is_runtime(m.folder) for m in plain):
            return "enabled-runtime"
        if plain and template_of(name):
            return "static"
        same = [m.folder for m in marks if m.is_same_name and m.folder not in below]
        if CONFIG in same:
            return "linked"
        return "linked-runtime" if any(is_runtime(folder) for folder in same) else ""

    def _is_own_link(self, mark: _Mark, name: str) -> bool:
        """Is this the unit's own entry in a folder of the search path, rather than one in a `.wants` folder?"""
        return (mark.folder, name) not in {(folder, link) for folder, _, _, link in self.layout.links}


def _default_instance(unit: UnitFile) -> list[str]:
    stem, at, kind = unit.name.partition("@.")
    instance = unit.last("Install", "DefaultInstance")
    return [f"{stem}@{instance.value}.{kind}"] if at and instance else []
