# SPDX-License-Identifier: Apache-2.0
"""What frames are called and where they are from, as far as that needs no table of symbols."""

from __future__ import annotations

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown

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
