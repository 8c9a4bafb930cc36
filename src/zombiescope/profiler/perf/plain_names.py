# SPDX-License-Identifier: Apache-2.0
"""A function's name as its author wrote it, whatever the language: C++, Rust in both of its schemes, Go, in whose names the linker
writes a dot of a package's path as %2e. What is not understood stays as the linker has it."""

from __future__ import annotations

import re

from zombiescope.facts.names import quiet

_RUST_HASH = re.compile(r"::h[0-9a-f]{16}(?: \[clone [^]]*\])*$")
_RUST_BEGINNING = re.compile(r"(^|::)_\$")
"""A name must not begin with a sign: one that does is written with a letter before it."""
_RUST_ESCAPE = re.compile(r"\$(SP|BP|RF|LT|GT|LP|RP|C|u[0-9a-f]{1,6})\$")
_GO_ESCAPE = re.compile(r"%([0-9a-f]{2})")
_RUST_SIGNS = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}


def plain_name(name: str) -> str:
    if name.startswith("_R"):
        from zombiescope.profiler.perf.rust_names import rust_name  # noqa: PLC0415 (most captures have no such names)

        return rust_name(name) or name
    if not name.startswith("_Z"):
        return go_name(name)
    from zombiescope.profiler.perf.cpp_names import cpp_name  # noqa: PLC0415

    mangled, at, version = name.partition("@")  # a stub of the linker, or a version
    plain = cpp_name(mangled)
    if plain is None:
        return name
    return quiet(_old_rust(plain) if _RUST_HASH.search(plain) else plain) + at + version


def _old_rust(name: str) -> str:
    """Rust before its own scheme borrowed that of C++: a hash at the end, signs written out."""
    plain = _RUST_BEGINNING.sub(r"\1$", _RUST_HASH.sub("", name))
    return _RUST_ESCAPE.sub(lambda match: _sign(match[1]), plain).replace("..", "::")


def _sign(word: str) -> str:
    if word in _RUST_SIGNS:
        return _RUST_SIGNS[word]
    number = int(word[1:], 16)
    sign = chr(number) if number < 0x110000 else ""
    return sign if sign.isprintable() else f"${word}$"


def go_name(name: str) -> str:
    """As the programmer wrote it."""
    return _GO_ESCAPE.sub(lambda match: _go_sign(match[1]), name) if "%2e" in name else name


def _go_sign(digits: str) -> str:
    sign = chr(int(digits, 16))
    return sign if sign.isprintable() and sign.isascii() else f"%{digits}"
