# SPDX-License-Identifier: Apache-2.0
"""Searches a recording, as it is about to be written, for every name that its host knows: the second look, after scrubbing.

It does not trust the scrubber: it looks at what is in the archive, names of members and keys too.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Mapping
from typing import Any, NamedTuple

from zombiescope.host.known_names import SHORTEST, UID, WORD, KnownNames, is_name, telling
from zombiescope.host.recording import CARRIED, MEMBER, PACKED, bytes_of
from zombiescope.host.scrub import is_kernels_own, strings_of

_WORDS = re.compile(UID + rb"|" + WORD)
_ADDRESSES = re.compile(rb"[0-9A-Fa-f:.]{3,}")


class Leak(NamedTuple):
    name: bytes
    where: str
    """The question whose answer still has it, by its number: the path itself may be the secret."""


def find_leaks(
    archive: bytes, known: KnownNames, kept: frozenset[bytes] | set[bytes], functions: frozenset[str] = frozenset()
) -> list[Leak]:
    """`kept`: words that name nobody. `functions`: of the kernel, which profiles name. Longest names first."""
    texts = _texts(archive, frozenset(bytes_of(name) for name in functions))
    found: dict[bytes, str] = {}
    names = telling(b"\n".join(known.everything()), kept)
    for word, where in _first_places(texts, _WORDS).items():
        for name in telling(word, kept) & names:
            found.setdefault(name, where)
    addresses = {address.lower() for address in known.addresses}
    for part, where in _first_places(texts, _ADDRESSES).items():
        if part.strip(b".:") in addresses or part in addresses:
            found.setdefault(part, where)
    for name in _whole_names(known, kept):
        form = re.compile(rb"(?<![a-z0-9])" + re.escape(name) + rb"(?![a-z0-9])")
        place = next((where for text, where in texts.items() if name in text and form.search(text)), None)
        if place is not None:
            found[name] = place
    return [Leak(name, found[name]) for name in sorted(found, key=lambda name: (-len(name), name))]


def _first_places(texts: Mapping[bytes, str], form: re.Pattern[bytes]) -> dict[bytes, str]:
    places: dict[bytes, str] = {}
    for text, where in texts.items():
        for part in form.findall(text):
            places.setdefault(part, where)
    return places


def _whole_names(known: KnownNames, kept: frozenset[bytes] | set[bytes]) -> set[bytes]:
    """Names of several words, such as a domain: each word may be common, and all of them together are not."""
    people = (*known.hosts, *known.domains, *known.users)
    return {name.lower() for name in people if len(name) >= SHORTEST and is_name(name, kept)}


def _texts(archive: bytes, functions: frozenset[bytes]) -> dict[bytes, str]:
    """Every text in the archive in small letters, with where it stands first."""
    texts: dict[bytes, str] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:*") as members:
        for member in members:
            about = (member.name, member.linkname, member.uname, member.gname, *member.pax_headers.values())
            texts["\n".join(about).encode("utf-8", "surrogateescape").lower()] = "the archive's table of contents"
            content = members.extractfile(member)
            for number, line in enumerate(content.read().splitlines() if content else (), 1):
                for text in _texts_of(member.name, line):
                    if text not in functions:
                        texts.setdefault(text.lower(), f"line {number} of {member.name}")
    return texts


def _texts_of(member: str, line: bytes) -> list[bytes]:
    if member in CARRIED:
        entry: dict[str, Any] = json.loads(line)
        entry.pop(PACKED, None)  # numbers, as base64
        return list(strings_of(entry))
    return _line(line) if member == MEMBER else [line]


def _line(line: bytes) -> list[bytes]:
    """Of an answer that only the kernel can write, the question alone."""
    entry: dict[str, Any] = json.loads(line)
    if entry.get("ask") == "read" and is_kernels_own(bytes_of(entry["path"])):
        entry.pop("answer", None)
    return list(strings_of(entry))
