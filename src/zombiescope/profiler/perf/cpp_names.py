# SPDX-License-Identifier: Apache-2.0
"""Names of C++ as their authors wrote them, in the words of binutils' c++filt. Bounded in depth and length, for a symbol comes from
a stranger's file: what would be longer, and what is not understood, stays as the linker has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zombiescope.profiler.perf.cpp_grammar import NOTHING, OPERATORS, Node, NotMangledError
from zombiescope.profiler.perf.cpp_types import TypeReader

_LONGEST_MANGLED, _LONGEST, _MOST_SEEN, _MOST_WRITTEN = 8192, 16_384, 50_000, 4 << 20
_OPEN = (" ", "(*", "(&", "(&&", "::*")
_SIMPLE = ("name", "qualified", "braces", "standard")
Pair = tuple[str, str]


def cpp_name(mangled: str) -> str | None:
    """None: it is no name of C++, or says too much."""
    if len(mangled) > _LONGEST_MANGLED or not mangled.startswith("_Z"):
        return None
    reader = TypeReader(mangled)
    try:
        return _Writer().text(reader.mangled())
    except (NotMangledError, RecursionError):
        return None


class _Scope(NamedTuple):
    """What a parameter of a template means where something is written."""

    arguments: tuple[Node, ...] = ()
    outer: _Scope | None = None
    pack: int | None = None
    """Which of the arguments of a pack."""
    in_lambda: bool = False


class _Writer:
    def __init__(self) -> None:
        self._scope = self._top = _Scope()
        self._scopes: dict[tuple[int, int, int | None, bool], _Scope] = {}
        self._written: dict[tuple[int, int], Pair] = {}
        self._kept: list[object] = []
        self._seen = self._size = 0
        self._ways: dict[str, Callable[[Node], Pair]] = {
            "pointer": self._pointer,
            "suffixed": self._suffixed,
            "function": self._function,
            "array": self._array,
            "member": self._member,
            "expansion": self._expansion,
            "pack": self._of_pack,
            "parameter": self._parameter,
        }
        self._words: dict[str, Callable[[Node], str]] = {
            "name": lambda node: node.text,
            "standard": lambda node: node.text,
            "qualified": lambda node: f"{self.text(node.parts[0])}::{self.text(node.parts[1])}",
            "local": lambda node: f"{self._outer(node.parts[0])}::{self.text(node.parts[1])}",
            "template": self._template,
            "list": self._list,
            "constructor": lambda node: self.text(_last(node.parts[0])),
            "destructor": lambda node: f"~{self.text(_last(node.parts[0]))}",
            "conversion": lambda node: f"operator {self.text(node.parts[0])}",
            "tagged": lambda node: f"{self.text(node.parts[0])}[abi:{node.text}]",
            "lambda": self._lambda,
            "binding": lambda node: f"[{self._list(node)}]",
            "encoding": self._encoding,
            "method": lambda node: self.text(node.parts[0]) + node.text,
            "special": lambda node: node.text + self.text(node.parts[0]),
            "in": lambda node: f"{node.text}{self.text(node.parts[0])}-in-{self.text(node.parts[1])}",
            "vendor": lambda node: f"{self.text(node.parts[0])} {self.text(node.parts[1])}",
            "vector": lambda node: f"{self.text(node.parts[0])} __vector({self.text(node.parts[1])})",
            "decltype": lambda node: f"decltype ({self.text(node.parts[0])})",
            "value": lambda node: f"({self.text(node.parts[0])}){node.text}",
            "unary": self._unary,
            "binary": self._binary,
            "choice": self._choice,
            "call": lambda node: f"{self._inner(node.parts[0])}({self.text(node.parts[1])})",
            "cast": lambda node: f"({self.text(node.parts[0])})({self.text(node.parts[1])})",
            "named cast": lambda node: f"{node.text}<{self.text(node.parts[0])}>({self.text(node.parts[1])})",
            "of type": lambda node: f"{node.text}({self.text(node.parts[0])})",
            "count": lambda node: str(self._length(node.parts[0]) or 0),
            "braces": lambda node: f"{self.text(node.parts[0])}{{{self.text(node.parts[1])}}}",
        }

    def text(self, node: Node) -> str:
        return "".join(self._pair(node))

    def _pair(self, node: Node) -> Pair:
        """What stands left and right of the name that has this type; each node is written once, however often it is referred to."""
        key = (id(node), id(self._scope))
        found = self._written.get(key)
        if found is None:
            way = self._ways.get(node.kind)
            found = way(node) if way is not None else (self._words[node.kind](node), "")
            self._seen += 1
            self._size += len(found[0]) + len(found[1])
            if len(found[0]) + len(found[1]) > _LONGEST or self._seen > _MOST_SEEN or self._size > _MOST_WRITTEN:
                raise NotMangledError("too long")
            self._written[key] = found
            self._kept += (node, self._scope)  # or their numbers could be given to others
        return found

    def _the(self, scope: _Scope) -> _Scope:
        """The same one each time, so that what is written in it is found again."""
        key = (id(scope.arguments), id(scope.outer), scope.pack, scope.in_lambda)
        return self._scopes.setdefault(key, scope)

    def _within(self, scope: _Scope, node: Node) -> Pair:
        outer, self._scope = self._scope, scope
        found = self._pair(node)
        self._scope = outer
        return found

    def _argument(self, node: Node) -> tuple[Node, _Scope]:
        """What a parameter stands for, and where that is written."""
        scope, number = self._scope, int(node.text)
        if number >= len(scope.arguments):
            raise NotMangledError("a parameter without an argument")
        found = scope.arguments[number]
        if found.kind == "pack" and scope.pack is not None:
            if scope.pack >= len(found.parts):
                raise NotMangledError("a pack is too short")
            found = found.parts[scope.pack]
        return found, scope.outer or self._top

    def _parameter(self, node: Node) -> Pair:
        if self._scope.in_lambda:
            return f"auto:{int(node.text) + 1}", ""
        found, scope = self._argument(node)
        return self._within(scope, found)

    def _resolved(self, node: Node) -> tuple[Node, _Scope]:
        """The type itself, where it is an argument."""
        outer, here = self._scope, self._scope
        while node.kind == "parameter" and not here.in_lambda:
            self._scope = here
            node, here = self._argument(node)
        self._scope = outer
        return node, here

    def _lambda(self, node: Node) -> str:
        outer, self._scope = self._scope, self._the(self._scope._replace(in_lambda=True))
        takes = self._takes(node.parts)
        self._scope = outer
        return f"{{lambda({takes})#{node.text}}}"

    def _pointer(self, node: Node) -> Pair:
        sign = node.text
        inner, scope = self._resolved(node.parts[0])
        outer = self._scope
        while inner.kind == "pointer" and sign != "*" and inner.text != "*":
            sign = "&&" if sign == inner.text == "&&" else "&"
            self._scope = scope
            inner, scope = self._resolved(inner.parts[0])
        self._scope = outer
        left, right = self._within(scope, inner)
        if self._opens(inner, scope):
            return f"{left}{'' if left.endswith(_OPEN) else ' '}({sign}", f"){right}"
        return left + sign, right

    def _opens(self, node: Node, scope: _Scope) -> bool:
        """Whether a pointer to it needs brackets."""
        outer, self._scope = self._scope, scope
        node, scope = self._resolved(node)
        self._scope = outer
        if node.kind == "suffixed":
            return self._opens(node.parts[0], scope)
        return node.kind in ("function", "array")

    def _suffixed(self, node: Node) -> Pair:
        inner, scope = self._resolved(node.parts[0])
        left, right = self._within(scope, inner)
        if inner.kind == "suffixed" and inner.text == node.text:
            return left, right
        if node.text.startswith(" [clone"):
            return left + right + node.text, ""
        return left + node.text, right

    def _function(self, node: Node) -> Pair:
        left, right = self._pair(node.parts[0])
        return (
            f"{left}{'' if right.startswith(')') else ' '}",
            f"({self._takes(node.parts[1].parts)}){node.text}{right}",
        )

    def _array(self, node: Node) -> Pair:
        left, right = self._pair(node.parts[0])
        return left, f" [{self.text(node.parts[1])}]{right.removeprefix(' ') if right.startswith(' [') else right}"

    def _member(self, node: Node) -> Pair:
        left, right = self._pair(node.parts[1])
        of = self.text(node.parts[0])
        if self._opens(node.parts[1], self._scope):
            return f"{left}{'' if left.endswith(_OPEN) else ' '}({of}::*", f"){right}"
        return f"{left} {of}::*", right

    def _expansion(self, node: Node) -> Pair:
        many = self._length(node.parts[0])
        if many is None:
            return f"{self.text(node.parts[0])}...", ""
        outer = self._scope
        found: list[str] = []
        size = 0
        for number in range(many):
            self._scope = self._the(outer._replace(pack=number))
            found.append(self.text(node.parts[0]))
            size += len(found[-1])
            if size > _LONGEST:
                raise NotMangledError("too long")
        self._scope = outer
        return ", ".join(filter(None, found)), ""

    def _length(self, node: Node, left: int = 100) -> int | None:
        """How many arguments the first pack in it has; None: there is none."""
        if node.kind == "parameter" and int(node.text) < len(self._scope.arguments):
            found = self._scope.arguments[int(node.text)]
            return len(found.parts) if found.kind == "pack" else None
        if node.kind in ("expansion", "lambda") or left <= 0:
            return None
        self._seen += 1
        if self._seen > _MOST_SEEN:
            raise NotMangledError("too much")
        return next((many for part in node.parts if (many := self._length(part, left - 1)) is not None), None)

    def _of_pack(self, node: Node) -> Pair:
        return self._list(node), ""

    def _list(self, node: Node) -> str:
        found: list[str] = []
        size = 0
        for part in node.parts:
            found.append(self.text(part))
            size += len(found[-1])
            if size > _LONGEST:
                raise NotMangledError("too long")
        return ", ".join(filter(None, found))

    def _takes(self, takes: tuple[Node, ...]) -> str:
        words = self._list(Node("list", "", takes))
        return "" if words == "void" else words

    def _template(self, node: Node) -> str:
        arguments = self.text(node.parts[1])
        if _ends_in_conversion(node.parts[0]):
            name = "".join(self._within(self._the(_Scope(node.parts[1].parts, self._scope)), node.parts[0]))
        else:
            name = self.text(node.parts[0])
        last = self.text(node.parts[1].parts[-1]) if node.parts[1].parts else ""
        return f"{name}{' ' if name.endswith('<') else ''}<{arguments}{' ' if last.endswith('>') else ''}>"

    def _outer(self, node: Node) -> str:
        """A function without what it gives: that would seem to be the type of what is inside."""
        if node.kind == "encoding":
            node = node._replace(parts=(node.parts[0], NOTHING, node.parts[2]))
            self._kept.append(node)
        return self.text(node)

    def _encoding(self, node: Node) -> str:
        name, gives, takes = node.parts
        called = self.text(name)
        outer = self._scope
        if (arguments := _arguments_of(name)) is not None:
            self._scope = self._the(_Scope(arguments.parts, outer))
        left, right = self._pair(gives) if gives is not NOTHING else ("", "")
        given = self._takes(takes.parts)
        self._scope = outer
        begin = f"{left}{'' if not left or left.endswith((' ', '(')) else ' '}"
        return f"{begin}{called}({given}){node.text}{right}"

    def _inner(self, node: Node) -> str:
        text = self.text(node)
        return text if node.kind in _SIMPLE else f"({text})"

    def _unary(self, node: Node) -> str:
        (operand,) = node.parts
        if (
            node.text == "ad"
            and operand.kind == "encoding"
            and not operand.text
            and operand.parts[0].kind == "qualified"
        ):
            operand = operand.parts[0]
        return OPERATORS[node.text] + self._inner(operand)

    def _binary(self, node: Node) -> str:
        left, right = node.parts
        if node.text == "ix":
            return f"{self._inner(left)}[{self.text(right)}]"
        whole = f"{self._inner(left)}{OPERATORS[node.text]}{self._inner(right)}"
        return f"({whole})" if node.text == "gt" else whole

    def _choice(self, node: Node) -> str:
        asked, yes, no = (self._inner(part) for part in node.parts)
        return f"{asked}?{yes} : {no}"


def _arguments_of(name: Node) -> Node | None:
    """Of a function: what the parameters in its type stand for."""
    while name.kind in ("local", "tagged"):
        name = name.parts[1 if name.kind == "local" else 0]
    return name.parts[1] if name.kind == "template" else None


def _ends_in_conversion(name: Node) -> bool:
    while name.kind in ("qualified", "local"):
        name = name.parts[1]
    return name.kind == "conversion"


def _last(node: Node) -> Node:
    """What a constructor is called: the last name of its class, without arguments."""
    while node.kind in ("qualified", "local", "template", "tagged", "standard"):
        node = node.parts[0] if node.kind in ("template", "tagged", "standard") else node.parts[1]
    return node
