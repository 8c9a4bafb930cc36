# SPDX-License-Identifier: Apache-2.0
"""Which words of a recording name nobody: the allow list, and what is left of a text without it.

A word is a run of letters and digits, so `_`, `-`, `.` and `@` part words. Whatever is on no list is a name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache

from zombiescope.host.safe_open import read_shipped

WORD = rb"[A-Za-z0-9\x80-\xff]+"
SHORTEST = 3
"""Letters. A name of one or two is in every text by chance (`id`, `io`, `vm`): it tells nobody apart, and is not searched for."""
UID = rb"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}(?![0-9A-Za-z])"
ID = re.compile(rb"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{6,}")
"""A word that is an id: letters and digits of a hexadecimal number."""
ID_INSIDE = re.compile(rb"((?=[a-f]*[0-9])[0-9a-f]{8,})")
_UIDS = re.compile(UID)
_ALLOWED_WORDS = re.compile(WORD)
_NUMBERED = re.compile(rb"([^0-9]+)[0-9]+")
_LETTERS = re.compile(rb"[^0-9]+")
_COMMENT = re.compile(rb"#[^\n]*")


@cache
def kept_words() -> frozenset[bytes]:
    """What our own strings spell out, what every Linux system spells out, and the units and programs of the knowledge base."""
    listed = read_shipped("own_words.txt") + b"\n" + _COMMENT.sub(b"", read_shipped("system_words.txt"))
    return frozenset(word for text in (listed, *_known_agents()) for word in _ALLOWED_WORDS.findall(text.lower()))


def _known_agents() -> Iterable[bytes]:
    """Units and programs are public names; what else the knowledge base says are conditions."""
    base = tomllib.loads(read_shipped("agents.toml").decode("utf-8"))
    for entry in [*base.get("agent", ()), *base.get("role", ())]:
        lists = [entry.get(key, ()) for key in ("if", "needed_if", "unneeded_if", "contested_if")]
        conditions = [
            said for some in lists for part in (some.values() if isinstance(some, dict) else [some]) for said in part
        ]
        named = [said for said in conditions if said.lstrip("!").startswith(("unit:", "installed:", "program:"))]
        yield from (name.encode() for name in [*entry.get("units", ()), *named])


def may_stay(word: bytes, kept: frozenset[bytes] | set[bytes]) -> bool:
    """A number, one letter, a listed word; and each of these with a number behind."""
    low = word.lower()
    if low in kept or low.isdigit() or len(low) == 1:
        return True
    numbered = _NUMBERED.fullmatch(low)
    return numbered is not None and (len(numbered[1]) == 1 or numbered[1] in kept)


def is_name(name: bytes, kept: frozenset[bytes] | set[bytes]) -> bool:
    """Of a host, a domain or a person: listed words too name one when several stand together, as in `ip-10-0-0-7`."""
    return len(_ALLOWED_WORDS.findall(name)) > 1 or bool(telling(name, kept))


def telling(text: bytes, kept: frozenset[bytes] | set[bytes], shortest: int = SHORTEST) -> set[bytes]:
    """What of a text tells one name from another: words without the number behind, and the parts of mixed ones."""
    low = text.lower()
    found = {uid.replace(b"-", b"").replace(b"_", b"") for uid in _UIDS.findall(low)}
    for word in set(_ALLOWED_WORDS.findall(_UIDS.sub(b" ", low) if found else low)):
        if not may_stay(word, kept):
            if ID.fullmatch(word):  # told by the whole of it: parts of ids are alike by chance
                found.add(word)
                continue
            numbered = _NUMBERED.fullmatch(word)
            found.add(numbered[1] if numbered else word)
            found.update(letters for part in ID_INSIDE.split(word)[::2] for letters in _LETTERS.findall(part))
    return {word for word in found if len(word) >= shortest and not may_stay(word, kept)}
