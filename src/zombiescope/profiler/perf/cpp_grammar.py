# SPDX-License-Identifier: Apache-2.0
"""Mangled names of C++ (the Itanium ABI, which everybody but Microsoft follows) as trees: names and types.

A name may refer back into itself, so that a short one can be huge when written out: the tree shares what is referred to, and
`cpp_names.py` bounds what is written. What is not understood is no name: it is left as it is.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

_DEEPEST = 200


def most_steps(text: str) -> int:
    """For a name: real ones take a quarter of a step per letter to read, and half of one to write."""
    return 100 + 2 * len(text)


_QUALIFIERS = {"r": " restrict", "V": " volatile", "K": " const"}
OPERATORS = {
    "aN": "&=", "aS": "=", "aa": "&&", "ad": "&", "an": "&", "aw": "co_await ", "cl": "()", "cm": ",", "co": "~", "dV": "/=",
    "da": "delete[] ", "de": "*", "dl": "delete ", "ds": ".*", "dt": ".", "dv": "/", "eO": "^=", "eo": "^", "eq": "==",
    "ge": ">=", "gt": ">", "ix": "[]", "lS": "<<=", "le": "<=", "ls": "<<", "lt": "<", "mI": "-=", "mL": "*=", "mi": "-",
    "ml": "*", "mm": "--", "na": "new[]", "ne": "!=", "ng": "-", "nt": "!", "nw": "new", "oR": "|=", "oo": "||", "or": "|",
    "pL": "+=", "pl": "+", "pm": "->*", "pp": "++", "ps": "+", "pt": "->", "qu": "?", "rM": "%=", "rS": ">>=", "rm": "%",
    "rs": ">>", "ss": "<=>", "sz": "sizeof ", "st": "sizeof ", "az": "alignof ", "at": "alignof ", "nx": "noexcept",
}  # fmt: skip
_NAMELESS = ("da", "dl")
_SPECIAL = {
    "TV": "vtable for ", "TT": "VTT for ", "TI": "typeinfo for ", "TS": "typeinfo name for ", "TF": "typeinfo fn for ",
    "TH": "TLS init function for ", "TW": "TLS wrapper function for ", "GV": "guard variable for ",
    "GA": "hidden alias for ",
}  # fmt: skip
_THUNKS = {
    "Th": ("non-virtual thunk to ", ("h",)), "Tv": ("virtual thunk to ", ("v",)), "Tc": ("covariant return thunk to ", ("", "")),
}  # fmt: skip
"""And the offsets before its name; those without a kind name it themselves."""
_OF_TYPES = ("TV", "TT", "TI", "TS", "TF")
_ANONYMOUS = ("_GLOBAL_.N", "_GLOBAL__N", "_GLOBAL_$N")
_NUMBER = re.compile(r"(n?)([0-9]{1,18})(?![0-9])")
_SEQUENCE = re.compile(r"([0-9A-Z]{0,8})_")
_CLONE = re.compile(r"\.\w+(?:\.\d+)*")


class NotMangledError(ValueError):
    pass


class Node(NamedTuple):
    kind: str
    text: str = ""
    parts: "tuple[Node, ...]" = ()


NOTHING = Node("name")


class Told:
    """What is learned of a name on the way: whether its function has a type to return, and how `this` is qualified."""

    gives_nothing = False
    ends_with_arguments = False
    qualifiers = ""


class NameReader:
    """The text and the place in it, how far one may go, and names. Types and expressions are added by `cpp_types.py`."""

    type: Callable[[], Node]
    decltype: Callable[[], Node]
    arguments: Callable[[], Node]
    substitution: Callable[[], Node]
    parameter: Callable[[], Node]

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.depth = self.steps = 0
        self._most = most_steps(text)
        self.known: list[Node] = []
        self.takes_arguments = True

    def look(self, ahead: int = 0) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def pair(self) -> str:
        return self.text[self.at : self.at + 2]

    def took(self, word: str) -> bool:
        found = self.text.startswith(word, self.at)
        self.at += len(word) if found else 0
        return found

    def want(self, word: str) -> None:
        if not self.took(word):
            raise NotMangledError(f"{word} is wanting")

    def step(self) -> None:
        self.steps += 1
        if self.depth > _DEEPEST or self.steps > self._most:
            raise NotMangledError("too deep")

    def bounded(self, read: Callable[[], Node]) -> Node:
        self.depth += 1
        self.step()
        node = read()
        self.depth -= 1
        return node

    def read(self, shape: re.Pattern[str]) -> re.Match[str]:
        match = shape.match(self.text, self.at)
        if match is None:
            raise NotMangledError("no number")
        self.at = match.end()
        return match

    def number(self) -> int:
        found = self.read(_NUMBER)
        return -int(found[2]) if found[1] else int(found[2])

    def sequence(self) -> int:
        """`_` is the first, `0_` the second."""
        digits = self.read(_SEQUENCE)[1]
        return int(digits, 36) + 1 if digits else 0

    def source_name(self) -> Node:
        length = self.number()
        name = self.text[self.at : self.at + length]
        if length <= 0 or len(name) != length:
            raise NotMangledError("a name is cut off")
        self.at += length
        return Node("name", "(anonymous namespace)" if name.startswith(_ANONYMOUS) else name)

    def until_end(self, read: Callable[[], Node]) -> tuple[Node, ...]:
        found = []
        while not self.took("E"):
            found.append(self.bounded(read))
        return tuple(found)

    def qualifiers(self) -> str:
        found = ""
        for letter in "rVK":
            found = (_QUALIFIERS[letter] if self.took(letter) else "") + found
        return found

    def mangled(self) -> Node:
        self.want("_Z")
        node = self.encoding()
        while _CLONE.match(self.text, self.at):
            node = Node("suffixed", f" [clone {self.read(_CLONE)[0]}]", (node,))
        if self.at < len(self.text):
            raise NotMangledError("there is more")
        return node

    def encoding(self) -> Node:
        return self.bounded(self._encoding)

    def _encoding(self) -> Node:
        if self.look() in ("T", "G"):
            return self._special()
        told = Told()
        name = self.name(told)
        if self.look() in ("", "E", "."):
            return Node("method", told.qualifiers, (name,)) if told.qualifiers else name
        gives = self.type() if told.ends_with_arguments and not told.gives_nothing else NOTHING
        takes = []
        while self.look() not in ("", "E", "."):
            takes.append(self.type())
        return Node("encoding", told.qualifiers, (name, gives, Node("list", "", tuple(takes))))

    def _special(self) -> Node:
        pair = self.pair()
        self.at += 2
        if pair in _SPECIAL:
            return Node("special", _SPECIAL[pair], (self.type() if pair in _OF_TYPES else self.name(Told()),))
        if pair == "GR":
            what = self.name(Told())
            number = 0 if self.look() in ("", "E") else self.sequence()
            return Node("special", f"reference temporary #{number} for ", (what,))
        if pair == "TC":
            derived = self.type()
            self.number()
            self.want("_")
            return Node("in", "construction vtable for ", (self.type(), derived))
        if pair in _THUNKS:
            said, kinds = _THUNKS[pair]
            for kind in kinds:
                self._offset(kind or self._next())
            return Node("special", said, (self.encoding(),))
        if pair == "GT":
            non = "non-" if self._next() == "n" else ""
            return Node("special", f"{non}transaction clone for ", (self.encoding(),))
        raise NotMangledError(pair)

    def _next(self) -> str:
        self.at += 1
        return self.text[self.at - 1 : self.at]

    def _offset(self, kind: str) -> None:
        if kind not in ("h", "v"):
            raise NotMangledError("no offset")
        for _ in range(1 if kind == "h" else 2):
            self.number()
            self.want("_")

    def name(self, told: Told) -> Node:
        return self.bounded(lambda: self._name(told))

    def _name(self, told: Told) -> Node:
        if self.took("N"):
            return self._nested(told)
        if self.took("Z"):
            return self._local(told)
        if self.look() == "S" and self.look(1) != "t":
            found = self.substitution()
            if self.look() != "I":
                raise NotMangledError("a substitution is no name")
            return self._with_arguments(found, told)
        is_std = self.took("St")
        found = self._unqualified(told, NOTHING)
        found = Node("qualified", "", (Node("name", "std"), found)) if is_std else found
        if self.look() != "I":
            return found
        self.known.append(found)
        return self._with_arguments(found, told)

    def _with_arguments(self, name: Node, told: Told) -> Node:
        arguments = self.arguments()
        told.ends_with_arguments = True
        return Node("template", "", (name, arguments))

    def _nested(self, told: Told) -> Node:
        told.qualifiers = self.qualifiers() + (" &&" if self.took("O") else " &" if self.took("R") else "")
        found: Node | None = None
        while not self.took("E"):
            told.ends_with_arguments = False
            self.step()
            found, is_new = self._component(found, told)
            if is_new:
                self.known.append(found)
            self.took("M")
        if found is None or not self.known:
            raise NotMangledError("an empty name")
        self.known.pop()
        return found

    def _component(self, found: Node | None, told: Told) -> tuple[Node, bool]:
        """The name with one more part, and whether it can be referred to."""
        if self.look() == "I":
            if found is None or found.kind == "template":
                raise NotMangledError("arguments of nothing")
            return self._with_arguments(found, told), True
        if found is None and self.look() == "T":
            return self.parameter(), True
        if found is None and self.pair() in ("Dt", "DT"):
            return self.decltype(), True
        if found is None and self.look() == "S":
            return (Node("name", "std") if self.took("St") else self.substitution()), False
        last = self._unqualified(told, found or NOTHING)
        return (last if found is None else Node("qualified", "", (found, last))), True

    def _local(self, told: Told) -> Node:
        outer = self.encoding()
        self.want("E")
        if self.took("s"):
            self._discriminator()
            return Node("local", "", (outer, Node("name", "string literal")))
        if self.took("d"):
            argument = Node("name", f"{{default arg#{self._counted()}}}")
            return Node("local", "", (outer, Node("qualified", "", (argument, self.name(told)))))
        entity = self.name(told)
        self._discriminator()
        return Node("local", "", (outer, entity))

    def _discriminator(self) -> None:
        if self.took("__"):
            self.number()
            self.want("_")
        elif self.look() == "_" and self.look(1).isdigit():
            self.at += 2

    def _unqualified(self, told: Told, outer: Node) -> Node:
        self.took("L")
        first = self.look()
        if first.isdigit():
            node = self.source_name()
        elif self.took("Ut"):
            node = Node("name", f"{{unnamed type#{self._counted()}}}")
        elif self.took("Ul"):
            node = self._lambda()
        elif self.took("DC"):
            node = Node("binding", "", self.until_end(self.source_name))
        elif first in ("C", "D") and outer is not NOTHING:
            node = self._structor(told, outer)
        else:
            node = self._operator(told)
        while self.took("B"):
            node = Node("tagged", self.source_name().text, (node,))
        return node

    def _counted(self) -> int:
        """`_` is the first, `0_` the second."""
        if self.took("_"):
            return 1
        number = self.number()
        self.want("_")
        return number + 2

    def _lambda(self) -> Node:
        takes = []
        while not self.took("E"):
            takes.append(self.type())
        return Node("lambda", str(self._counted()), tuple(takes))

    def _structor(self, told: Told, outer: Node) -> Node:
        kind = self._next()
        is_inherited = self.took("I")
        if self._next() not in tuple("0123459"):
            raise NotMangledError("no constructor")
        outer = self.type() if is_inherited else outer
        told.gives_nothing = True
        return Node("constructor" if kind == "C" else "destructor", "", (outer,))

    def _operator(self, told: Told) -> Node:
        pair = self.pair()
        self.at += 2
        if pair == "cv":
            told.gives_nothing = True
            takes, self.takes_arguments = self.takes_arguments, False
            kind = self.type()
            self.takes_arguments = takes
            return Node("conversion", "", (kind,))
        if pair == "li":
            return Node("name", f'operator"" {self.source_name().text}')
        if pair not in OPERATORS or pair in ("qu", "dt", "ds", "sz", "st", "az", "at", "nx"):
            raise NotMangledError(pair)
        sign = OPERATORS[pair].rstrip() if pair in (*_NAMELESS, "aw") else OPERATORS[pair]
        return Node("name", f"operator{' ' if sign[0].isalpha() else ''}{sign}")
