# SPDX-License-Identifier: Apache-2.0
"""What frames are called and where they are from, as far as that needs no table of symbols; and a function's name as its author
wrote it, whatever the language: C++, Rust in both of its schemes, Go, in whose names the linker writes a dot of a package's path
as %2e. What is not understood stays as the linker has it."""

import re

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import quiet, shown

KERNEL = "[kernel]"
UNKNOWN = "[unknown]"
OF_RECORDS = "[bpf]"
"""The file of symbols that records told of."""
VDSO = "[vdso]"
NO_FUNCTION = Gap("frames[].name", "the saved kernel symbols hold no function", "save /proc/kallsyms as root")
ALL_ZERO = Gap(
    "frames[].name", "the kernel hides its addresses (all zero in kallsyms)", "record as root, or with CAP_SYSLOG"
)


class Frames:
    """Every (function, file) once. Grows while a capture is read."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.files: list[str] = []
        self._known: dict[tuple[str, str], int] = {}

    def add(self, name: str, file: str) -> int:
        number = self._known.setdefault((name, file), len(self.names))
        if number == len(self.names):
            self.names.append(name)
            self.files.append(file)
        return number


def is_made_while_running(path: str) -> bool:
    return path != VDSO and (not path.startswith("/") or path.startswith(("//anon", "/memfd:", "/dev/zero")))


def name_in(text: bytes, at: int) -> tuple[str, str]:
    """Name and module of the symbol whose name lies there."""
    line = text[at : text.find(b"\n", at)] if b"\n" in text[at : at + 512] else text[at:]
    name, _, module = line.partition(b"\t")
    return shown(name), shown(module.strip()) if module else KERNEL


def text_began(text: bytes) -> int | None:
    """Where the code of the kernel with these symbols begins."""
    return _address_of(text, b"_text") or _address_of(text, b"_stext")


def _address_of(text: bytes, name: bytes) -> int | None:
    at = text.find(b" " + name + b"\n")
    return int(text[at - 18 : at - 2], 16) if at >= 18 else None


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
    return _GO_ESCAPE.sub(lambda match: _go_sign(match[1]), name) if "%2e" in name else name


def _go_sign(digits: str) -> str:
    sign = chr(int(digits, 16))
    return sign if sign.isprintable() and sign.isascii() else f"%{digits}"
