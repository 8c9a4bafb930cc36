# SPDX-License-Identifier: Apache-2.0
"""Plain English in every string of the program and its data: phrases that no native writer would use are refused."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src/zombiescope"
PHRASES = {
    r"\b(?:to be|be|was|were) had\b": "available, not available",
    r"\bnought\b": "zero",
    r"\bof that choice\b": "that match",
    r"\bby lot\b": "random",
    r"\bin vain\b": "does not help",
    r"\bfor people\b": "you do this by hand",
    r"\bfor want of\b": "because ... is short, for lack of",
    r"\bno matter of\b": "is not about",
}
"""What is refused, and what to say instead."""
_NOT_AFTER = "".join(rf"(?<!\b{word})" for word in ("in", "within", "for", "half", "than", "of", "looks"))
PER = {
    r"\b(?:one|a) (?:line|row|column|strip|test|file) an? \w+": "one line per sample",
    _NOT_AFTER + r" an? (?:second|minute|hour|day)\b(?! witness)": "per",
}
"""Refused in what a person reads; a docstring may say that something takes a second."""
CONTRACT = ("for-people",)
"""Values that programs compare with: never changed."""


def strings(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Every literal, f-strings as one: where it stands, and whether a person reads it. The docstring of a command is its help."""
    if path.suffix != ".py":
        yield 1, path.read_text(encoding="utf-8"), True
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inside = {id(value) for node in joined for value in node.values}
    for one in joined:
        told = "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in one.values)
        yield one.lineno, told, True
    documents = set(_docstrings(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value, id(node) not in documents


def _docstrings(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        decorated = " ".join(map(ast.unparse, getattr(node, "decorator_list", ())))
        body = getattr(node, "body", None)
        if isinstance(body, list) and "command" not in decorated and "group" not in decorated:
            yield from (id(each.value) for each in body if isinstance(each, ast.Expr))


def refused(text: str, *, is_read: bool = True) -> list[str]:
    plain = " ".join(text.split())
    wanted = PHRASES | (PER if is_read else {})
    return [
        f"{text!r} (say: {instead})" for pattern, instead in wanted.items() if re.search(pattern, plain, re.IGNORECASE)
    ]


def test_no_string_of_the_program_has_a_phrase_that_is_refused() -> None:
    files = [*SOURCE.rglob("*.py"), *SOURCE.glob("data/*.toml")]
    assert len(files) > 100
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {why}"
        for path in files
        for line, text, is_read in strings(path)
        if text not in CONTRACT
        for why in refused(text, is_read=is_read)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("no tier was to be had", True),
        ("within its range of nought", True),
        ("up to {} restarts a day", True),
        ("{} more an hour", True),
        ("One line a zombie, for a spreadsheet", True),
        ("the lower of two looks a second apart", False),
        ("watched for less than a minute", False),
        ("three times within a day", False),
        ("one line per zombie", False),
    ],
)
def test_the_refusal_refuses(text: str, is_refused: bool) -> None:
    assert bool(refused(text)) is is_refused


ERRORS = ("UsageError", "ObservationError", "ActionFailedError", "ActionUndoneError")


def test_every_error_says_what_to_type() -> None:
    """What, why, and a hint that is not empty."""
    silent = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                hint = node.args[2] if len(node.args) > 2 else None
                is_given = hint is not None or any(each.arg == "hint" for each in node.keywords)
                is_empty = isinstance(hint, ast.Constant) and not hint.value
                if (not is_given or is_empty) and not any(isinstance(each, ast.Starred) for each in node.args):
                    silent.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert silent == []
