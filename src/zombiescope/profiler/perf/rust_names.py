# SPDX-License-Identifier: Apache-2.0
"""Names of Rust in its own scheme (`_R…`, "v0") as their authors wrote them, without hashes of crates.

A name may refer back into itself, so that a short one can be huge when written out: depth and length are bounded.
"""

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


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self._depth = self._steps = self._lifetimes = 0

    def path(self, *, is_value: bool) -> str:
        kind = self.next()
        if kind == "B":
            return self.back(lambda: self.path(is_value=is_value))
        if kind not in _PATHS:
            raise _NotMangledError(kind)
        return self.bounded(lambda: _PATHS[kind](self, is_value))

    def type(self) -> str:
        kind = self.next()
        if kind in _BASIC:
            return _BASIC[kind]
        if kind == "B":
            return self.back(self.type)
        if kind in _TYPES:
            return self.bounded(lambda: _TYPES[kind](self))
        self.at -= 1
        return self.path(is_value=False)

    def implemented(self, *, has_place: bool, of_trait: bool) -> str:
        if has_place:  # where it stands: not part of what a person writes
            self.disambiguator()
            self.path(is_value=False)
        return f"<{self.type()} as {self.path(is_value=False)}>" if of_trait else f"<{self.type()}>"

    def nested(self, is_value: bool) -> str:
        space = self.next()
        outer = self.path(is_value=is_value)
        number = self.disambiguator()
        name = self.plain_identifier()
        if space.isupper():
            return f"{outer}::{{{_SPECIAL.get(space, space)}{':' if name else ''}{name}#{number}}}"
        return f"{outer}::{name}" if name else outer

    def generic(self, is_value: bool) -> str:
        outer = self.path(is_value=is_value)
        return f"{outer}{'::' if is_value else ''}<{', '.join(self.until_end(self.argument))}>"

    def argument(self) -> str:
        if self.took("L"):
            return self.lifetime()
        return self.const() if self.took("K") else self.type()

    def tuple(self) -> str:
        parts = self.until_end(self.type)
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def reference(self, how: str) -> str:
        lifetime = self.lifetime() if self.took("L") else "'_"
        return f"&{'' if lifetime == chr(39) + '_' else lifetime + ' '}{how}{self.type()}"

    def function(self) -> str:
        unsafe = "unsafe " if self.took("U") else ""
        abi = ""
        if self.took("K"):
            abi = 'extern "C" ' if self.took("C") else f'extern "{self.plain_identifier().replace("_", "-")}" '
        takes, gives = ", ".join(self.until_end(self.type)), self.type()
        return f"{unsafe}{abi}fn({takes})" + ("" if gives == "()" else f" -> {gives}")

    def dyn(self) -> str:
        bounds = self.bound(lambda: " + ".join(self.until_end(self.trait)))
        if not self.took("L"):
            raise _NotMangledError("a trait object without a lifetime")
        lifetime = self.lifetime()
        return f"dyn {bounds}" + ("" if lifetime == "'_" else f" + {lifetime}")

    def trait(self) -> str:
        name = self.path(is_value=False)
        bindings = []
        while self.took("p"):
            bindings.append(f"{self.plain_identifier()} = {self.type()}")
        if not bindings:
            return name
        joined = ", ".join(bindings)
        return f"{name[:-1]}, {joined}>" if name.endswith(">") and not name.startswith("<") else f"{name}<{joined}>"

    def const(self) -> str:
        kind = self.next()
        if kind == "p":
            return "_"
        if kind == "B":
            return self.back(self.const)
        is_negative = kind in _SIGNED and self.took("n")
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

    def bound(self, inner: Callable[[], str]) -> str:
        """With lifetimes of its own: `for<'a>`."""
        count = self.base62() + 1 if self.took("G") else 0
        if count > _DEEPEST:
            raise _NotMangledError("too many lifetimes")
        names = [self.lifetime_name(self._lifetimes + index) for index in range(count)]
        self._lifetimes += count
        text = inner()
        self._lifetimes -= count
        return f"for<{', '.join(names)}> {text}" if names else text

    def lifetime(self) -> str:
        number = self.base62()
        if number == 0:
            return "'_"
        if number > self._lifetimes:
            raise _NotMangledError("a lifetime that is not bound")
        return self.lifetime_name(self._lifetimes - number)

    @staticmethod
    def lifetime_name(number: int) -> str:
        return f"'{chr(97 + number)}" if number < 26 else f"'_{number}"

    def identifier(self) -> str:
        self.disambiguator()
        return self.plain_identifier()

    def disambiguator(self) -> int:
        return self.base62() + 1 if self.took("s") else 0

    def plain_identifier(self) -> str:
        is_coded = self.took("u")
        begin = self.at
        while (
            self.at < len(self.text) and self.text[self.at].isdigit() and (self.at == begin or self.text[begin] != "0")
        ):
            self.at += 1
        length = int(self.text[begin : self.at])
        self.took("_")
        name = self.text[self.at : self.at + length]
        if len(name) != length:
            raise _NotMangledError("a name is cut off")
        self.at += length
        if not is_coded:
            return name
        plain, _, code = name.rpartition("_")
        return (f"{plain}-{code}" if plain else code).encode("ascii").decode("punycode")

    def base62(self) -> int:
        if self.took("_"):
            return 0
        end = self.text.index("_", self.at)
        value = 0
        for digit in self.text[self.at : end]:
            value = value * 62 + _DIGITS.index(digit)
        self.at = end + 1
        return value + 1

    def back(self, read: Callable[[], str]) -> str:
        here = self.at - 1
        target = self.base62()
        if target >= here:
            raise _NotMangledError("it refers forward")
        after, self.at = self.at, target
        text = self.bounded(read)
        self.at = after
        return text

    def bounded(self, read: Callable[[], str]) -> str:
        self._depth += 1
        self._steps += 1
        if self._depth > _DEEPEST or self._steps > _MOST_STEPS:
            raise _NotMangledError("too deep")
        text = read()
        self._depth -= 1
        if len(text) > _LONGEST:
            raise _NotMangledError("too long")
        return text

    def until_end(self, read: Callable[[], str]) -> list[str]:
        found = []
        while not self.took("E"):
            found.append(read())
            if len(found) > _LONGEST:
                raise _NotMangledError("too long")
        return found

    def took(self, letter: str) -> bool:
        found = self.text.startswith(letter, self.at)
        self.at += 1 if found else 0
        return found

    def next(self) -> str:
        letter = self.text[self.at]
        self.at += 1
        return letter


_PATHS: dict[str, Callable[[_Parser, bool], str]] = {
    "C": lambda parser, _: parser.identifier(),
    "M": lambda parser, _: parser.implemented(has_place=True, of_trait=False),
    "X": lambda parser, _: parser.implemented(has_place=True, of_trait=True),
    "Y": lambda parser, _: parser.implemented(has_place=False, of_trait=True),
    "N": _Parser.nested,
    "I": _Parser.generic,
}
_TYPES: dict[str, Callable[[_Parser], str]] = {
    "A": lambda parser: f"[{parser.type()}; {parser.const()}]",
    "S": lambda parser: f"[{parser.type()}]",
    "T": _Parser.tuple,
    "R": lambda parser: parser.reference(""),
    "Q": lambda parser: parser.reference("mut "),
    "P": lambda parser: f"*const {parser.type()}",
    "O": lambda parser: f"*mut {parser.type()}",
    "F": lambda parser: parser.bound(parser.function),
    "D": _Parser.dyn,
}
