# SPDX-License-Identifier: Apache-2.0
"""Names of Rust in its own scheme (`_R…`, "v0") as their authors wrote them, without hashes of crates.

A name may refer back into itself, so that a short one can be huge when written out: depth and length are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_DEEPEST, _LONGEST, _MOST_STEPS = 120, 4096, 20_000
_BASIC = {
    "a": "i8",
    "b": "bool",
    "c": "char",
    "d": "f64",
    "e": "str",
    "f": "f32",
    "h": "u8",
    "i": "isize",
    "j": "usize",
    "l": "i32",
    "m": "u32",
    "n": "i128",
    "o": "u128",
    "s": "i16",
    "t": "u16",
    "u": "()",
    "v": "...",
    "x": "i64",
    "y": "u64",
    "z": "!",
    "p": "_",
}
_SPECIAL = {"C": "closure", "S": "shim"}
_SIGNED, _UNSIGNED = "aslxni", "htmyoj"
_SHAPE = re.compile(r"_R[0-9]*([A-Z][A-Za-z0-9_]*)(?:[.$].*)?", re.DOTALL)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class _NotMangledError(ValueError):
    pass


def rust_name(mangled: str) -> str | None:
    """None: it is no name of this scheme, or says too much."""
    shape = _SHAPE.fullmatch(mangled)
    if shape is None or not mangled.isascii():
        return None
    parser = _Parser(shape[1])
    try:
        plain = parser.path(is_value=True)
        if parser.at < len(parser.text):
            parser.path(is_value=False)  # the crate that it was made for
        return plain or None if parser.at == len(parser.text) else None
    except (_NotMangledError, IndexError, ValueError, OverflowError):
        return None
    finally:
        parser.let_go()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self._depth = self._steps = self._lifetimes = 0
        self._paths: dict[str, Callable[[bool], str]] = {
            "C": lambda _: self._identifier(),
            "M": lambda _: self._inherent(),
            "X": lambda _: self._of_trait(has_place=True),
            "Y": lambda _: self._of_trait(has_place=False),
            "N": self._nested,
            "I": self._generic,
        }
        self._types: dict[str, Callable[[], str]] = {
            "A": lambda: f"[{self.type()}; {self._const()}]",
            "S": lambda: f"[{self.type()}]",
            "T": self._tuple,
            "R": lambda: self._reference(""),
            "Q": lambda: self._reference("mut "),
            "P": lambda: f"*const {self.type()}",
            "O": lambda: f"*mut {self.type()}",
            "F": lambda: self._bound(self._function),
            "D": self._dyn,
        }

    def let_go(self) -> None:
        """Its tables refer to itself: an import does not look for such cycles, and would keep every one of them."""
        self._paths.clear()
        self._types.clear()

    def path(self, *, is_value: bool) -> str:
        kind = self._next()
        if kind == "B":
            return self._back(lambda: self.path(is_value=is_value))
        if kind not in self._paths:
            raise _NotMangledError(kind)
        return self._bounded(lambda: self._paths[kind](is_value))

    def type(self) -> str:
        kind = self._next()
        if kind in _BASIC:
            return _BASIC[kind]
        if kind == "B":
            return self._back(self.type)
        if kind in self._types:
            return self._bounded(self._types[kind])
        self.at -= 1
        return self.path(is_value=False)

    def _inherent(self) -> str:
        self._place()
        return f"<{self.type()}>"

    def _of_trait(self, *, has_place: bool) -> str:
        if has_place:
            self._place()
        return f"<{self.type()} as {self.path(is_value=False)}>"

    def _place(self) -> None:
        """Where an implementation stands: not part of what a person writes."""
        self._disambiguator()
        self.path(is_value=False)

    def _nested(self, is_value: bool) -> str:
        space = self._next()
        outer = self.path(is_value=is_value)
        number = self._disambiguator()
        name = self._plain_identifier()
        if space.isupper():
            called = _SPECIAL.get(space, space)
            return f"{outer}::{{{called}{':' if name else ''}{name}#{number}}}"
        return f"{outer}::{name}" if name else outer

    def _generic(self, is_value: bool) -> str:
        outer = self.path(is_value=is_value)
        arguments = self._until_end(self._argument)
        return f"{outer}{'::' if is_value else ''}<{', '.join(arguments)}>"

    def _argument(self) -> str:
        if self._took("L"):
            return self._lifetime()
        return self._const() if self._took("K") else self.type()

    def _tuple(self) -> str:
        parts = self._until_end(self.type)
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def _reference(self, how: str) -> str:
        lifetime = self._lifetime() if self._took("L") else "'_"
        return f"&{'' if lifetime == chr(39) + '_' else lifetime + ' '}{how}{self.type()}"

    def _function(self) -> str:
        unsafe = "unsafe " if self._took("U") else ""
        abi = ""
        if self._took("K"):
            abi = 'extern "C" ' if self._took("C") else f'extern "{self._plain_identifier().replace("_", "-")}" '
        takes = ", ".join(self._until_end(self.type))
        gives = self.type()
        return f"{unsafe}{abi}fn({takes})" + ("" if gives == "()" else f" -> {gives}")

    def _dyn(self) -> str:
        bounds = self._bound(lambda: " + ".join(self._until_end(self._trait)))
        if not self._took("L"):
            raise _NotMangledError("a trait object without a lifetime")
        lifetime = self._lifetime()
        return f"dyn {bounds}" + ("" if lifetime == "'_" else f" + {lifetime}")

    def _trait(self) -> str:
        name = self.path(is_value=False)
        bindings = []
        while self._took("p"):
            bindings.append(f"{self._plain_identifier()} = {self.type()}")
        if not bindings:
            return name
        joined = ", ".join(bindings)
        return f"{name[:-1]}, {joined}>" if name.endswith(">") and not name.startswith("<") else f"{name}<{joined}>"

    def _const(self) -> str:
        kind = self._next()
        if kind == "p":
            return "_"
        if kind == "B":
            return self._back(self._const)
        is_negative = kind in _SIGNED and self._took("n")
        end = self.text.index("_", self.at)
        digits, self.at = self.text[self.at : end], end + 1
        value = int(digits, 16) if digits else 0
        if kind in _SIGNED or kind in _UNSIGNED:
            return f"{'-' if is_negative else ''}{value}"
        if kind == "b" and value < 2:
            return ("false", "true")[value]
        if kind == "c":
            return f"{chr(value)!r}"
        raise _NotMangledError(kind)

    def _bound(self, inner: Callable[[], str]) -> str:
        """With lifetimes of its own: `for<'a>`."""
        count = self._base62() + 1 if self._took("G") else 0
        if count > _DEEPEST:
            raise _NotMangledError("too many lifetimes")
        names = [self._lifetime_name(self._lifetimes + index) for index in range(count)]
        self._lifetimes += count
        text = inner()
        self._lifetimes -= count
        return f"for<{', '.join(names)}> {text}" if names else text

    def _lifetime(self) -> str:
        number = self._base62()
        if number == 0:
            return "'_"
        if number > self._lifetimes:
            raise _NotMangledError("a lifetime that is not bound")
        return self._lifetime_name(self._lifetimes - number)

    @staticmethod
    def _lifetime_name(number: int) -> str:
        return f"'{chr(97 + number)}" if number < 26 else f"'_{number}"

    def _identifier(self) -> str:
        self._disambiguator()
        return self._plain_identifier()

    def _disambiguator(self) -> int:
        return self._base62() + 1 if self._took("s") else 0

    def _plain_identifier(self) -> str:
        is_coded = self._took("u")
        begin = self.at
        while (
            self.at < len(self.text) and self.text[self.at].isdigit() and (self.at == begin or self.text[begin] != "0")
        ):
            self.at += 1
        length = int(self.text[begin : self.at])
        self._took("_")
        name = self.text[self.at : self.at + length]
        if len(name) != length:
            raise _NotMangledError("a name is cut off")
        self.at += length
        if not is_coded:
            return name
        plain, _, code = name.rpartition("_")
        return (f"{plain}-{code}" if plain else code).encode("ascii").decode("punycode")

    def _base62(self) -> int:
        if self._took("_"):
            return 0
        end = self.text.index("_", self.at)
        value = 0
        for digit in self.text[self.at : end]:
            value = value * 62 + _DIGITS.index(digit)
        self.at = end + 1
        return value + 1

    def _back(self, read: Callable[[], str]) -> str:
        here = self.at - 1
        target = self._base62()
        if target >= here:
            raise _NotMangledError("it refers forward")
        after, self.at = self.at, target
        text = self._bounded(read)
        self.at = after
        return text

    def _bounded(self, read: Callable[[], str]) -> str:
        self._depth += 1
        self._steps += 1
        if self._depth > _DEEPEST or self._steps > _MOST_STEPS:
            raise _NotMangledError("too deep")
        text = read()
        self._depth -= 1
        if len(text) > _LONGEST:
            raise _NotMangledError("too long")
        return text

    def _until_end(self, read: Callable[[], str]) -> list[str]:
        found = []
        while not self._took("E"):
            found.append(read())
            if len(found) > _LONGEST:
                raise _NotMangledError("too long")
        return found

    def _took(self, letter: str) -> bool:
        if self.at < len(self.text) and self.text[self.at] == letter:
            self.at += 1
            return True
        return False

    def _next(self) -> str:
        letter = self.text[self.at]
        self.at += 1
        return letter
