# SPDX-License-Identifier: Apache-2.0
"""Names of C++ as their authors wrote them, in the words of binutils' c++filt. Bounded in depth and length, for a symbol comes from
a stranger's file: what would be longer, and what is not understood, stays as the linker has it."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from zombiescope.profiler.perf.cpp_grammar import NOTHING, OPERATORS, Node, NotMangledError, most_steps
from zombiescope.profiler.perf.cpp_types import TypeReader

_LONGEST_MANGLED, _LONGEST, _MOST_WRITTEN = 8192, 16_384, 2 << 20
_OPEN = (" ", "(*", "(&", "(&&", "::*")
_AROUND_CLASS = ("qualified", "local", "template", "tagged", "standard")
"""A constructor is called as the last name of its class, without arguments."""
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
    outer: "_Scope | None" = None
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
            found = _PAIRS[node.kind](self, node) if node.kind in _PAIRS else (_TEXTS[node.kind](self, node), "")
            self._seen += 1
            self._size += len(found[0]) + len(found[1])
            if len(found[0]) + len(found[1]) > _LONGEST or self._seen > self._most or self._size > _MOST_WRITTEN:
                raise NotMangledError("too long")
            self._written[key] = found
            self._kept += (node, self._scope)  # or their numbers could be given to others
        return found

    def the(self, scope: _Scope) -> _Scope:
        """The same one each time, so that what is written in it is found again."""
        return self._scopes.setdefault((id(scope.arguments), id(scope.outer), scope.pack, scope.in_lambda), scope)

    def within(self, node: Node, scope: _Scope) -> Pair:
        outer, self._scope = self._scope, scope
        found = self.pair(node)
        self._scope = outer
        return found

    def argument(self, node: Node, scope: _Scope) -> tuple[Node, _Scope]:
        """What a parameter stands for, and where that is written."""
        number = int(node.text)
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
        return self.within(*self.argument(node, self._scope))

    def resolved(self, node: Node, scope: _Scope) -> tuple[Node, _Scope]:
        """The type itself, where it is an argument."""
        while node.kind == "parameter" and not scope.in_lambda:
            node, scope = self.argument(node, scope)
        return node, scope

    def of_lambda(self, node: Node) -> str:
        outer, self._scope = self._scope, self.the(self._scope._replace(in_lambda=True))
        takes = self.takes(node.parts)
        self._scope = outer
        return f"{{lambda({takes})#{node.text}}}"

    def pointer(self, node: Node) -> Pair:
        sign = node.text
        inner, scope = self.resolved(node.parts[0], self._scope)
        while inner.kind == "pointer" and sign != "*" and inner.text != "*":
            sign = "&&" if sign == inner.text == "&&" else "&"
            inner, scope = self.resolved(inner.parts[0], scope)
        left, right = self.within(inner, scope)
        if self.opens(inner, scope):
            return f"{left}{'' if left.endswith(_OPEN) else ' '}({sign}", f"){right}"
        return left + sign, right

    def opens(self, node: Node, scope: _Scope) -> bool:
        """Whether a pointer to it needs brackets."""
        node, scope = self.resolved(node, scope)
        return self.opens(node.parts[0], scope) if node.kind == "suffixed" else node.kind in ("function", "array")

    def suffixed(self, node: Node) -> Pair:
        inner, scope = self.resolved(node.parts[0], self._scope)
        left, right = self.within(inner, scope)
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
        scopes = (self.the(self._scope._replace(pack=number)) for number in range(many))
        return self.joined("".join(self.within(node.parts[0], scope)) for scope in scopes), ""

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

    def listed(self, node: Node) -> str:
        return self.joined(map(self.text, node.parts))

    def joined(self, texts: Iterable[str]) -> str:
        found, size = list[str](), 0
        for text in texts:
            found.append(text)
            size += len(text)
            if size > _LONGEST:
                raise NotMangledError("too long")
        return ", ".join(filter(None, found))

    def takes(self, takes: tuple[Node, ...]) -> str:
        words = self.joined(map(self.text, takes))
        return "" if words == "void" else words

    def template(self, node: Node) -> str:
        arguments = self.text(node.parts[1])
        of_conversion = _last(node.parts[0], ("qualified", "local")).kind == "conversion"
        scope = self.the(_Scope(node.parts[1].parts, self._scope)) if of_conversion else self._scope
        name = "".join(self.within(node.parts[0], scope))
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
        own = _last(name, ("local", "tagged"))
        if own.kind == "template":
            self._scope = self.the(_Scope(own.parts[1].parts, outer))  # what the parameters in its type stand for
        left, right = self.pair(gives) if gives is not NOTHING else ("", "")
        given = self.takes(takes.parts)
        self._scope = outer
        space = "" if not left or left.endswith((" ", "(")) else " "
        return f"{left}{space}{called}({given}){node.text}{right}"

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
    "pack": lambda writer, node: (writer.listed(node), ""),
    "parameter": _Writer.parameter,
}
_TEXTS: dict[str, Callable[[_Writer, Node], str]] = {
    "name": lambda _, node: node.text,
    "standard": lambda _, node: node.text,
    "qualified": lambda writer, node: f"{writer.text(node.parts[0])}::{writer.text(node.parts[1])}",
    "local": lambda writer, node: f"{writer.outer(node.parts[0])}::{writer.text(node.parts[1])}",
    "template": _Writer.template,
    "list": _Writer.listed,
    "constructor": lambda writer, node: writer.text(_last(node.parts[0], _AROUND_CLASS)),
    "destructor": lambda writer, node: f"~{writer.text(_last(node.parts[0], _AROUND_CLASS))}",
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


def _last(node: Node, inside: tuple[str, ...]) -> Node:
    """The name at the end, out of what stands around it."""
    while node.kind in inside:
        node = node.parts[1 if node.kind in ("qualified", "local") else 0]
    return node
