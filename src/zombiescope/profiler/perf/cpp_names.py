# SPDX-License-Identifier: Apache-2.0
"""Names of C++ as their authors wrote them, in the words of binutils' c++filt. Bounded in depth and length, for a symbol comes from
a stranger's file: what would be longer, and what is not understood, stays as the linker has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zombiescope.profiler.perf.cpp_grammar import NOTHING, OPERATORS, Node, NotMangledError, most_steps
from zombiescope.profiler.perf.cpp_types import TypeReader

_LONGEST_MANGLED, _LONGEST, _MOST_WRITTEN = 8192, 16_384, 2 << 20
_OPEN = (" ", "(*", "(&", "(&&", "::*")
_SIMPLE = ("name", "qualified", "braces", "standard")
Pair = tuple[str, str]


def cpp_name(mangled: str) -> str | None:
    """None: it is no name of C++, or says too much."""
    if len(mangled) > _LONGEST_MANGLED or not mangled.startswith("_Z"):
        return None
    reader = TypeReader(mangled)
    try:
        return _Writer(most_steps(mangled)).text(reader.mangled())
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
    def __init__(self, most: int) -> None:
        self._most = most
        self._scope = self._top = _Scope()
        self._scopes: dict[tuple[int, int, int | None, bool], _Scope] = {}
        self._written: dict[tuple[int, int], Pair] = {}
        self._kept: list[object] = []
        self._seen = self._size = 0

    def text(self, node: Node) -> str:
        return "".join(self.pair(node))

    def pair(self, node: Node) -> Pair:
        """What stands left and right of the name that has this type; each node is written once, however often it is referred to."""
        key = (id(node), id(self._scope))
        found = self._written.get(key)
        if found is None:
            way = _PAIRS.get(node.kind)
            found = way(self, node) if way is not None else (_TEXTS[node.kind](self, node), "")
            self._seen += 1
            self._size += len(found[0]) + len(found[1])
            if len(found[0]) + len(found[1]) > _LONGEST or self._seen > self._most or self._size > _MOST_WRITTEN:
                raise NotMangledError("too long")
            self._written[key] = found
            self._kept += (node, self._scope)  # or their numbers could be given to others
        return found

    def the(self, scope: _Scope) -> _Scope:
        """The same one each time, so that what is written in it is found again."""
        key = (id(scope.arguments), id(scope.outer), scope.pack, scope.in_lambda)
        return self._scopes.setdefault(key, scope)

    def within(self, scope: _Scope, node: Node) -> Pair:
        outer, self._scope = self._scope, scope
        found = self.pair(node)
        self._scope = outer
        return found

    def argument(self, node: Node) -> tuple[Node, _Scope]:
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

    def parameter(self, node: Node) -> Pair:
        if self._scope.in_lambda:
            return f"auto:{int(node.text) + 1}", ""
        found, scope = self.argument(node)
        return self.within(scope, found)

    def resolved(self, node: Node) -> tuple[Node, _Scope]:
        """The type itself, where it is an argument."""
        outer, here = self._scope, self._scope
        while node.kind == "parameter" and not here.in_lambda:
            self._scope = here
            node, here = self.argument(node)
        self._scope = outer
        return node, here

    def of_lambda(self, node: Node) -> str:
        outer, self._scope = self._scope, self.the(self._scope._replace(in_lambda=True))
        takes = self.takes(node.parts)
        self._scope = outer
        return f"{{lambda({takes})#{node.text}}}"

    def pointer(self, node: Node) -> Pair:
        sign = node.text
        inner, scope = self.resolved(node.parts[0])
        outer = self._scope
        while inner.kind == "pointer" and sign != "*" and inner.text != "*":
            sign = "&&" if sign == inner.text == "&&" else "&"
            self._scope = scope
            inner, scope = self.resolved(inner.parts[0])
        self._scope = outer
        left, right = self.within(scope, inner)
        if self.opens(inner, scope):
            return f"{left}{'' if left.endswith(_OPEN) else ' '}({sign}", f"){right}"
        return left + sign, right

    def opens(self, node: Node, scope: _Scope) -> bool:
        """Whether a pointer to it needs brackets."""
        outer, self._scope = self._scope, scope
        node, scope = self.resolved(node)
        self._scope = outer
        if node.kind == "suffixed":
            return self.opens(node.parts[0], scope)
        return node.kind in ("function", "array")

    def suffixed(self, node: Node) -> Pair:
        inner, scope = self.resolved(node.parts[0])
        left, right = self.within(scope, inner)
        if inner.kind == "suffixed" and inner.text == node.text:
            return left, right
        if node.text.startswith(" [clone"):
            return left + right + node.text, ""
        return left + node.text, right

    def function(self, node: Node) -> Pair:
        left, right = self.pair(node.parts[0])
        return (
            f"{left}{'' if right.startswith(')') else ' '}",
            f"({self.takes(node.parts[1].parts)}){node.text}{right}",
        )

    def array(self, node: Node) -> Pair:
        left, right = self.pair(node.parts[0])
        return left, f" [{self.text(node.parts[1])}]{right.removeprefix(' ') if right.startswith(' [') else right}"

    def member(self, node: Node) -> Pair:
        left, right = self.pair(node.parts[1])
        of = self.text(node.parts[0])
        if self.opens(node.parts[1], self._scope):
            return f"{left}{'' if left.endswith(_OPEN) else ' '}({of}::*", f"){right}"
        return f"{left} {of}::*", right

    def expansion(self, node: Node) -> Pair:
        many = self.length(node.parts[0])
        if many is None:
            return f"{self.text(node.parts[0])}...", ""
        outer = self._scope
        found: list[str] = []
        size = 0
        for number in range(many):
            self._scope = self.the(outer._replace(pack=number))
            found.append(self.text(node.parts[0]))
            size += len(found[-1])
            if size > _LONGEST:
                raise NotMangledError("too long")
        self._scope = outer
        return ", ".join(filter(None, found)), ""

    def length(self, node: Node, left: int = 100) -> int | None:
        """How many arguments the first pack in it has; None: there is none."""
        if node.kind == "parameter" and int(node.text) < len(self._scope.arguments):
            found = self._scope.arguments[int(node.text)]
            return len(found.parts) if found.kind == "pack" else None
        if node.kind in ("expansion", "lambda") or left <= 0:
            return None
        self._seen += 1
        if self._seen > self._most:
            raise NotMangledError("too much")
        return next((many for part in node.parts if (many := self.length(part, left - 1)) is not None), None)

    def of_pack(self, node: Node) -> Pair:
        return self.listed(node), ""

    def listed(self, node: Node) -> str:
        found: list[str] = []
        size = 0
        for part in node.parts:
            found.append(self.text(part))
            size += len(found[-1])
            if size > _LONGEST:
                raise NotMangledError("too long")
        return ", ".join(filter(None, found))

    def takes(self, takes: tuple[Node, ...]) -> str:
        words = self.listed(Node("list", "", takes))
        return "" if words == "void" else words

    def template(self, node: Node) -> str:
        arguments = self.text(node.parts[1])
        if _ends_in_conversion(node.parts[0]):
            name = "".join(self.within(self.the(_Scope(node.parts[1].parts, self._scope)), node.parts[0]))
        else:
            name = self.text(node.parts[0])
        last = self.text(node.parts[1].parts[-1]) if node.parts[1].parts else ""
        return f"{name}{' ' if name.endswith('<') else ''}<{arguments}{' ' if last.endswith('>') else ''}>"

    def outer(self, node: Node) -> str:
        """A function without what it gives: that would seem to be the type of what is inside."""
        if node.kind == "encoding":
            node = node._replace(parts=(node.parts[0], NOTHING, node.parts[2]))
            self._kept.append(node)
        return self.text(node)

    def encoding(self, node: Node) -> str:
        name, gives, takes = node.parts
        called = self.text(name)
        outer = self._scope
        if (arguments := _arguments_of(name)) is not None:
            self._scope = self.the(_Scope(arguments.parts, outer))
        left, right = self.pair(gives) if gives is not NOTHING else ("", "")
        given = self.takes(takes.parts)
        self._scope = outer
        begin = f"{left}{'' if not left or left.endswith((' ', '(')) else ' '}"
        return f"{begin}{called}({given}){node.text}{right}"

    def inner(self, node: Node) -> str:
        text = self.text(node)
        return text if node.kind in _SIMPLE else f"({text})"

    def unary(self, node: Node) -> str:
        (operand,) = node.parts
        if (
            node.text == "ad"
            and operand.kind == "encoding"
            and not operand.text
            and operand.parts[0].kind == "qualified"
        ):
            operand = operand.parts[0]
        return OPERATORS[node.text] + self.inner(operand)

    def binary(self, node: Node) -> str:
        left, right = node.parts
        if node.text == "ix":
            return f"{self.inner(left)}[{self.text(right)}]"
        whole = f"{self.inner(left)}{OPERATORS[node.text]}{self.inner(right)}"
        return f"({whole})" if node.text == "gt" else whole

    def choice(self, node: Node) -> str:
        asked, yes, no = (self.inner(part) for part in node.parts)
        return f"{asked}?{yes} : {no}"


_PAIRS: dict[str, Callable[[_Writer, Node], Pair]] = {
    "pointer": _Writer.pointer,
    "suffixed": _Writer.suffixed,
    "function": _Writer.function,
    "array": _Writer.array,
    "member": _Writer.member,
    "expansion": _Writer.expansion,
    "pack": _Writer.of_pack,
    "parameter": _Writer.parameter,
}
_TEXTS: dict[str, Callable[[_Writer, Node], str]] = {
    "name": lambda _, node: node.text,
    "standard": lambda _, node: node.text,
    "qualified": lambda writer, node: f"{writer.text(node.parts[0])}::{writer.text(node.parts[1])}",
    "local": lambda writer, node: f"{writer.outer(node.parts[0])}::{writer.text(node.parts[1])}",
    "template": _Writer.template,
    "list": _Writer.listed,
    "constructor": lambda writer, node: writer.text(_last(node.parts[0])),
    "destructor": lambda writer, node: f"~{writer.text(_last(node.parts[0]))}",
    "conversion": lambda writer, node: f"operator {writer.text(node.parts[0])}",
    "tagged": lambda writer, node: f"{writer.text(node.parts[0])}[abi:{node.text}]",
    "lambda": _Writer.of_lambda,
    "binding": lambda writer, node: f"[{writer.listed(node)}]",
    "encoding": _Writer.encoding,
    "method": lambda writer, node: writer.text(node.parts[0]) + node.text,
    "special": lambda writer, node: node.text + writer.text(node.parts[0]),
    "in": lambda writer, node: f"{node.text}{writer.text(node.parts[0])}-in-{writer.text(node.parts[1])}",
    "vendor": lambda writer, node: f"{writer.text(node.parts[0])} {writer.text(node.parts[1])}",
    "vector": lambda writer, node: f"{writer.text(node.parts[0])} __vector({writer.text(node.parts[1])})",
    "decltype": lambda writer, node: f"decltype ({writer.text(node.parts[0])})",
    "value": lambda writer, node: f"({writer.text(node.parts[0])}){node.text}",
    "unary": _Writer.unary,
    "binary": _Writer.binary,
    "choice": _Writer.choice,
    "call": lambda writer, node: f"{writer.inner(node.parts[0])}({writer.text(node.parts[1])})",
    "cast": lambda writer, node: f"({writer.text(node.parts[0])})({writer.text(node.parts[1])})",
    "named cast": lambda writer, node: f"{node.text}<{writer.text(node.parts[0])}>({writer.text(node.parts[1])})",
    "of type": lambda writer, node: f"{node.text}({writer.text(node.parts[0])})",
    "count": lambda writer, node: str(writer.length(node.parts[0]) or 0),
    "braces": lambda writer, node: f"{writer.text(node.parts[0])}{{{writer.text(node.parts[1])}}}",
}
"""Not of each writer: it would refer to itself, and stay in memory until somebody looks for such cycles."""


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
