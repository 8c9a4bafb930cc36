# SPDX-License-Identifier: Apache-2.0
"""Which names the package takes through ctypes, and from which library: the lists of core/dl_static.c must hold them all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.onefile.steps import HERE

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LISTS = {"None": "of_c", "libzstd.so.1": "of_zstd"}


class Taken(NamedTuple):
    library: str
    """"None": the C library; "?": decided when it runs."""
    name: str
    """"?": decided when it runs."""
    where: str


def taken_names(file: Path, shown: str) -> Iterator[Taken]:
    """Every attribute, subscript and getattr of whatever holds a library: a name, an attribute, a parameter, or the call itself."""
    yield from _in_scope(ast.parse(file.read_bytes()), {}, shown)


def _in_scope(scope: ast.AST, known: dict[str, str], shown: str) -> Iterator[Taken]:
    """A module, then its classes, then their functions: a name that holds a library in one function is any name in the next."""
    own = list(_own_nodes(scope))
    inner = [node for node in own if isinstance(node, _SCOPES)]
    within = own + [node for one in inner if isinstance(scope, ast.ClassDef) for node in ast.walk(one)]
    found = dict(_holders(within))
    attributes = {name: library for name, library in found.items() if "." in name}
    holders = {**known, **(attributes if isinstance(scope, ast.ClassDef) else found)}
    for node in own:
        if taken := _taken(node, holders):
            yield Taken(*taken, f"{shown}:{getattr(node, 'lineno', 0)}")
    for node in inner:
        yield from _in_scope(node, holders, shown)


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """All below it; of a function or class inside, only that it is there."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, _SCOPES):
            yield from _own_nodes(child)


def _taken(node: ast.AST, holders: dict[str, str]) -> tuple[str, str] | None:
    if isinstance(node, ast.Attribute) and (library := _library(node.value, holders)):
        return library, node.attr
    if isinstance(node, ast.Subscript) and (library := _library(node.value, holders)):
        return library, _word(node.slice)
    if (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "getattr"
        and (library := _library(node.args[0], holders))
    ):
        return library, _word(node.args[1])
    return None


def _word(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "?"


def _holders(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Assign):
            pairs = [*((target, node.value) for target in node.targets), *_pairs(node)]
        elif isinstance(node, ast.AnnAssign) and node.value:
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.arg) and node.annotation and ast.unparse(node.annotation) == "ctypes.CDLL":
            yield node.arg, "None"
            continue
        else:
            continue
        for target, value in pairs:
            if library := _called(value):
                yield ast.unparse(target), library


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """`a, b = x, y`."""
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)


def _library(node: ast.expr, holders: dict[str, str]) -> str:
    return holders.get(ast.unparse(node)) or _called(node)


def _called(node: ast.expr) -> str:
    """The library of `ctypes.CDLL(...)`; empty for anything else."""
    if not (
        isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {"CDLL", "PyDLL", "LoadLibrary"}
    ):
        return ""
    first = node.args[0] if node.args else ast.Constant(None)
    if isinstance(first, ast.Constant):
        return str(first.value)
    return "?"


def all_taken(package: Path) -> list[Taken]:
    return [
        taken
        for file in sorted(package.rglob("*.py"))
        for taken in taken_names(file, str(file.relative_to(package.parent)))
    ]


def linked_names() -> set[tuple[str, str]]:
    """What core/dl_static.c gives: (library, name)."""
    text = (HERE / "core" / "dl_static.c").read_text(encoding="utf-8")
    found = set()
    for library, listed in _LISTS.items():
        body = re.search(rf"{listed}\[\] = \{{(.*?)\n\}};", text, re.DOTALL)
        assert body, f"{listed} is not in dl_static.c"
        found |= {(library, name) for name in re.findall(r"ENTRY\((\w+)\)", body[1])}
    return found
