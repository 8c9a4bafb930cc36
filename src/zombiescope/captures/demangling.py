# SPDX-License-Identifier: Apache-2.0
"""Names as their authors wrote them: Rust by a reader of our own, C++ and older Rust through the C++ runtime's own demangler.

The library takes a name apart with memory of its own and has done so for decades; without it those names stay as they are.
"""

from __future__ import annotations

import ctypes
import re

from zombiescope.profiling.rust_names import rust_name

_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1")
_LONGEST = 1024
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
_RUST_ESCAPE = re.compile(r"\$(SP|BP|RF|LT|GT|LP|RP|C|u[0-9a-f]{1,6})\$")
_RUST_SIGNS = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}


class Demangler:
    """Gives a name back unchanged when it is not mangled or nobody here can tell."""

    def __init__(self, libraries: tuple[str, ...] = _LIBRARIES) -> None:
        self._function = None
        for name in libraries:
            try:
                library = ctypes.CDLL(name)
                self._free = ctypes.CDLL(None).free
                self._free.argtypes = (ctypes.c_void_p,)
                self._function = getattr(library, "__cxa_demangle")  # plainly written it would be a name of this class
            except (OSError, AttributeError):
                continue
            self._function.restype = ctypes.c_void_p
            self._function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
            break

    @property
    def is_there(self) -> bool:
        return self._function is not None

    def __call__(self, name: str) -> str:
        if name.startswith("_R"):
            return rust_name(name) or name
        if self._function is None or not name.startswith("_Z") or len(name) > _LONGEST:
            return name
        mangled, at, version = name.partition("@")
        status = ctypes.c_int(-1)
        found = self._function(mangled.encode(), None, None, ctypes.byref(status))
        if not found:
            return name
        plain = ctypes.string_at(found).decode("utf-8", "replace")
        self._free(found)
        return (_rust(plain) if _RUST_HASH.search(plain) else plain) + at + version


def _rust(name: str) -> str:
    """Rust before its own scheme borrowed that of C++: a hash at the end, signs written out."""
    plain = _RUST_ESCAPE.sub(lambda match: _sign(match[1]), _RUST_HASH.sub("", name))
    return plain.replace("..", "::").replace("_<", "<")


def _sign(word: str) -> str:
    if word in _RUST_SIGNS:
        return _RUST_SIGNS[word]
    number = int(word[1:], 16)
    sign = chr(number) if number < 0x110000 else ""
    return sign if sign.isprintable() else f"${word}$"
