# SPDX-License-Identifier: Apache-2.0
r"""Names from strangers, made printable and reversible.

Cgroup, unit and file names are bytes. Shown: printable UTF-8 as it is, every other byte as `\xNN`, a backslash doubled.
`shown(b"a\nb\\c\xff") == r"a\x0ab\\c\xff"`, and `unshown` gives the bytes back.
"""

import re
from collections.abc import Sequence

_PLAIN = re.compile(rb"[ -\[\]-~]*")
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(\\|x[0-9a-f]{2})")


def shown(name: bytes) -> str:
    if _PLAIN.fullmatch(name):
        return name.decode("ascii")
    return quiet(name.decode("utf-8", "surrogateescape").replace("\\", "\\\\"))


def raw(text: str) -> bytes:
    """The bytes behind text that Python, JSON or YAML decoded; half a pair of UTF-16, which JSON can hold and UTF-8 cannot, too."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return b"".join(map(_code, text))


def shown_text(text: str) -> str:
    return shown(raw(text))


def unshown(text: str) -> bytes:
    """The bytes that `shown` was given. A backslash that starts no escape is taken as it stands."""

    def restore(match: re.Match[str]) -> str:
        code = match[1]
        return (
            "\\"
            if code == "\\"
            else bytes([int(code[1:], 16)]).decode("latin-1" if code < "x80" else "utf-8", "surrogateescape")
        )

    return _ESCAPE.sub(restore, text).encode("utf-8", "surrogateescape")


def quiet(text: str) -> str:
    """Text that an honest writer made printable before: what a terminal would obey is escaped, the rest stays."""
    return "".join([one if one.isprintable() else _as_bytes(one) for one in text])


def quiet_lines(text: str) -> str:
    """Any text of ours, before a terminal gets it: what it would obey (escapes, bells, letters drawn backwards) is escaped."""
    return _OBEYED.sub(lambda match: _as_bytes(match[0]), text)


def _as_bytes(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in _code(character))


def _code(character: str) -> bytes:
    return character.encode("utf-8", "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass")


def counted(count: int, one: str, many: str = "") -> str:
    """`1 page`, `2,000 pages`; `many` where an s is not enough."""
    return f"1 {one}" if count == 1 else f"{count:,} {many or f'{one}s'}"


def share_said(part: int, whole: int, what: str) -> str:
    """`4,000 of 9,000 zombies`; `all 9,000 zombies`."""
    return f"all {whole:,} {what}" if part == whole > 1 else f"{part:,} of {whole:,} {what}"


def zombies_said(count: int, verb: str = "") -> str:
    """`2 zombies hold`, `1 zombie holds`."""
    if count == 1:
        return {"": "1 zombie", "are": "1 zombie is"}.get(verb, f"1 zombie {verb}s")
    return f"{count:,} zombies {verb}".rstrip()


def few(told: Sequence[str], named: int = 5) -> str:
    """The first of them, and how many more there are."""
    return "; ".join(told[:named]) + (f"; and {len(told) - named} more" if len(told) > named else "")
