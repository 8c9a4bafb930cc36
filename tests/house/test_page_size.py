# SPDX-License-Identifier: Apache-2.0
"""The page size has one truth: the package asks the system in one module, and counts a machine's pages in that machine's size."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "zombiescope"
ASKS = PACKAGE / "host" / "page_size.py"
SUPPOSES = PACKAGE / "facts" / "cgroups.py"
MODULES = sorted(PACKAGE.rglob("*.py"))
_ASKED = re.compile(r"\bPAGESIZE\b|getpagesize|SC_PAGE_?SIZE")
_NAMED = re.compile(r"page(?!s)", re.IGNORECASE)
"""A number of pages may be any."""
_PAGE, _SHIFT = 4096, 12
_SCALES = (ast.Mult, ast.FloorDiv, ast.Div, ast.Mod)


def is_number(node: ast.AST | None, value: int) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == value


def is_page(node: ast.AST | None) -> bool:
    """4096, 0x1000 or 1 << 12."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift):
        return is_number(node.left, 1) and is_number(node.right, _SHIFT)
    return is_number(node, _PAGE)


def written(source: str) -> list[int]:
    """Lines in which a page is 4,096 bytes because somebody wrote so: by name, or in arithmetic on bytes."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        named: list[tuple[str, ast.AST | None]] = []
        if isinstance(node, ast.Assign):
            named = [(ast.unparse(target), node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign):
            named = [(ast.unparse(node.target), node.value)]
        elif isinstance(node, ast.keyword):
            named = [(node.arg or "", node.value)]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            plain, short = [*node.args.posonlyargs, *node.args.args], [*node.args.defaults]
            pairs = [*zip(plain[len(plain) - len(short) :], short, strict=True)]
            named = [
                (each.arg, value)
                for each, value in [*pairs, *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
            ]
        found = any(_NAMED.search(name) and is_page(value) for name, value in named)
        if isinstance(node, ast.BinOp) and isinstance(node.op, _SCALES):
            found = is_page(node.left) or is_page(node.right)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift | ast.RShift):
            found = is_number(node.right, _SHIFT) and not isinstance(node.left, ast.Constant)
        if found:
            lines.append(getattr(node, "lineno", 0))
    return lines


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nobody_else_asks_the_system_or_writes_it_down(module: Path) -> None:
    source = module.read_text(encoding="utf-8")
    if module != ASKS:
        assert not _ASKED.search(source), "import PAGE_BYTES from zombiescope.host.page_size"
    if module != SUPPOSES:
        assert written(source) == [], "take it from the facts (Walk.page_bytes) or from zombiescope.host.page_size"


@pytest.mark.parametrize(
    "line",
    ["_PAGE_BYTES = 4096", "size = pages * 4096", "n = length // 0x1000", "frame = at >> 12", "def f(page_bytes=1 << 12): ...",
     "f(page_bytes=4096)", "at = frame << 12", "PAGE: int = 4096"],
)  # fmt: skip
def test_what_is_refused(line: str) -> None:
    assert written(line) == [1]


@pytest.mark.parametrize(
    "line", ["_LONGEST = 4096", "PAGES = 4096", "peer.recv(4096)", "_ANON = 1 << 12", "if size > 4096: ..."]
)
def test_sizes_of_other_things_are_not_pages(line: str) -> None:
    assert written(line) == []
