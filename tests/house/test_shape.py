# SPDX-License-Identifier: Apache-2.0
"""The shape of the house: names, sizes, licence lines and docstrings, for every module."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
OTHERS = sorted([*(ROOT / "bench").rglob("*.py"), *(ROOT / "tools").rglob("*.py")])

IMPORTS = (ast.Import, ast.ImportFrom)
CODE = "\n".join(re.sub(r"(?m)^ *(from|import) .*", "", path.read_text(encoding="utf-8")) for path in PACKAGE)

REFUSED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager", "handler"}
SPDX = "# SPDX-License-Identifier: "
MOST_LINES, MOST_LINES_OF_A_TEST, MOST_LINES_OF_A_FUNCTION, MOST_LINES_OF_A_DOCSTRING = 400, 600, 50, 10


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_there_is_a_house() -> None:
    assert len(PACKAGE) > 5
    assert Path(__file__) in TESTS


@pytest.mark.parametrize("module", [*PACKAGE, *TESTS, *OTHERS], ids=name_of)
def test_a_name_says_what_is_inside(module: Path) -> None:
    parts = module.relative_to(ROOT).with_suffix("").parts
    words = {word for part in parts for word in part.split("_")}
    assert not words & REFUSED_NAMES


@pytest.mark.parametrize("module", [*PACKAGE, *TESTS, *OTHERS], ids=name_of)
def test_no_module_is_too_long(module: Path) -> None:
    most = MOST_LINES_OF_A_TEST if module in TESTS else MOST_LINES
    assert len(module.read_text(encoding="utf-8").splitlines()) <= most


@pytest.mark.parametrize("module", [*PACKAGE, *TESTS, *OTHERS], ids=name_of)
def test_no_function_is_too_long(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {node.name: (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FUNCTION} == {}


@pytest.mark.parametrize("module", PACKAGE, ids=name_of)
def test_a_module_begins_with_its_licence_and_its_subject(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    assert text.startswith(SPDX)
    subject = ast.get_docstring(ast.parse(text))
    assert subject, "a module starts with a docstring"
    assert len(subject.splitlines()) <= MOST_LINES_OF_A_DOCSTRING


@pytest.mark.parametrize("module", PACKAGE, ids=name_of)
def test_rooms_re_export_nothing(module: Path) -> None:
    """But for the names of those of its own modules that are loaded when somebody names them, and nothing of what is in them."""
    if module.name != "__init__.py":
        return
    room = ".".join(module.relative_to(ROOT / "src").parts[:-1])
    imported = [node for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(node, IMPORTS)]
    late = [
        alias.name
        for node in imported
        if isinstance(node, ast.ImportFrom) and node.module == room
        for alias in node.names
    ]
    others = {node.module if isinstance(node, ast.ImportFrom) else "" for node in imported} - {room}
    assert others == ({"typing", "zombiescope.late"} if late else set())
    for name in late:
        assert (module.parent / f"{name}.py").exists() or (module.parent / name / "__init__.py").exists(), (
            "no module of it"
        )
        assert re.search(rf"\b{module.parent.name}\.{name}\b", CODE), (
            f"nobody names {room}.{name}: import it at the top"
        )


@pytest.mark.parametrize("module", PACKAGE, ids=name_of)
def test_a_room_loads_late_what_it_says(module: Path) -> None:
    if "late(__name__)" in module.read_text(encoding="utf-8"):
        room = import_module(".".join(module.relative_to(ROOT / "src").parts[:-1]))
        with pytest.raises(AttributeError, match="__nothing__"):
            _ = room.__nothing__
        with pytest.raises(ModuleNotFoundError):
            _ = room.nothing_of_the_kind
