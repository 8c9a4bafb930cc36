# SPDX-License-Identifier: Apache-2.0
"""The parts of this very build, with versions, licences and licence texts: `licenses`.

The one file carries the list it was packed with (`data/components.json`, written by tools/onefile). An installation asks the
metadata of what is installed: ourselves, and what we require, as far as it is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import metadata, resources
from typing import NamedTuple

from zombiescope.errors import UsageError
from zombiescope.facts.gap import Gap
from zombiescope.host.safe_open import read_shipped

OWN = "zombiescope"
_LISTED = "components.json"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_LICENCE_FILE = re.compile(r"(^|/)(licen[cs]es?/.*|(licen[cs]e|copying|notice|authors)[^/]*)$", re.IGNORECASE)


class Component(NamedTuple):
    name: str
    version: str
    licence: str
    """As an SPDX expression where its author gave one."""
    text: str
    """Empty where none came along."""


def read_components() -> list[Component]:
    """Ourselves first, then by name."""
    found = _packed() or list(_installed())
    return sorted([*found, *_vendored()], key=lambda part: (part.name != OWN, part.name.lower()))


def find_component(name: str) -> Component:
    parts = read_components()
    for part in parts:
        if part.name.lower() == name.lower():
            return part
    from difflib import get_close_matches  # noqa: PLC0415 (only for who mistyped)

    names = {part.name.lower(): part.name for part in parts}
    near = get_close_matches(name.lower(), names, n=1)
    hint = f"zombiescope licenses {names[near[0]]}" if near else "zombiescope licenses lists every part"
    raise UsageError(f"there is no part {name!r} in this build", "it is not among its components", hint)


def gaps_of(parts: list[Component]) -> list[Gap]:
    silent = [part.name for part in parts if not part.text]
    if not silent:
        return []
    return [Gap("components[].has_text", f"no licence text came with {', '.join(silent)}", "see its source package")]


def _packed() -> list[Component]:
    try:
        listed = json.loads(read_shipped(_LISTED))
    except FileNotFoundError:
        return []
    return [Component(part["name"], part["version"], part["licence"], part["text"]) for part in listed]


def _vendored() -> Iterator[Component]:
    """Libraries of other authors that the page brings along, by the list beside them; none where there is no page."""
    folder = resources.files("zombiescope").joinpath("web", "static", "vendor")
    try:
        listed = json.loads(folder.joinpath("manifest.json").read_bytes())["libraries"]
    except FileNotFoundError:
        return
    for part in listed:
        yield Component(
            part["name"],
            part["version"],
            part["licence"],
            folder.joinpath(part["licence_file"]).read_text(encoding="utf-8"),
        )


def _installed() -> Iterator[Component]:
    wanted, seen = [OWN], set[str]()
    while wanted:
        name = wanted.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in seen:
            continue
        seen.add(key)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # an extra that is not installed
        yield _described(found, name)
        wanted += _required(found, with_extras=key == OWN)


def _required(found: metadata.Distribution, *, with_extras: bool) -> Iterator[str]:
    for line in found.requires or ():
        wanted, _, marker = line.partition(";")
        if (with_extras or "extra" not in marker) and (named := _NAME.match(wanted.strip())):
            yield named[0]


def _described(found: metadata.Distribution, name: str) -> Component:
    about = found.metadata
    licence = _field(about, "License-Expression") or _field(about, "License") or _classified(found)
    first = licence.strip().partition("\n")[0] or "unknown"
    return Component(_field(about, "Name") or name, found.version, first, "\n".join(_texts(found)))


def _field(about: metadata.PackageMetadata, name: str) -> str:
    return next(iter(about.get_all(name) or ()), "")


def _classified(found: metadata.Distribution) -> str:
    told = (line.rpartition("::")[2].strip() for line in found.metadata.get_all("Classifier") or ())
    return next((line for line in told if "License" in line), "")


def _texts(found: metadata.Distribution) -> Iterator[str]:
    for file in found.files or ():
        if ".dist-info/" in str(file) and _LICENCE_FILE.search(str(file).partition(".dist-info/")[2]):
            text = found.read_text(str(file).partition(".dist-info/")[2])
            if text:
                yield text
