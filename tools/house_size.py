# SPDX-License-Identifier: Apache-2.0
"""How large the house is: modules, AST statements, median lines, modules with a single importer; with `--against REVISION`
the same of an earlier commit, and the ratio; with `--of REVISION` of that commit instead of what lies here.
Only the package is counted; nothing in it is generated or vendored Python."""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/zombiescope"


class Size(NamedTuple):
    modules: int
    """Files that hold at least one statement."""
    statements: int
    median_lines: int
    single_importer: int


def size_of(sources: dict[str, str]) -> Size:
    """The figures of a package, from its sources by path below the repository."""
    trees = {path: tree for path, text in sources.items() if (tree := ast.parse(text)).body}
    names = {path.removeprefix("src/").removesuffix(".py").replace("/", "."): path for path in trees}
    importers: Counter[str] = Counter()
    for path, tree in trees.items():
        asked = {name for node in ast.walk(tree) for name in _imported(node)}
        importers.update(name for name in asked & set(names) if names[name] != path)
    return Size(
        len(trees),
        sum(isinstance(node, ast.stmt) for tree in trees.values() for node in ast.walk(tree)),
        int(statistics.median(len(sources[path].splitlines()) for path in trees)) if trees else 0,
        sum(importers[name] == 1 for name in names),
    )


def _imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module:
        return {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return set()


def here() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in (ROOT / PACKAGE).rglob("*.py")}


def at(revision: str) -> dict[str, str]:
    command = ["git", "-C", str(ROOT), "archive", revision, PACKAGE]
    packed = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        members = [member for member in archive if member.isfile() and member.name.endswith(".py")]
        return {member.name: _text(archive, member) for member in members}


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = archive.extractfile(member)
    return file.read().decode() if file else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Counts the package: modules, statements, lines, single importers.")
    parser.add_argument("--against", metavar="REVISION", help="an earlier commit to compare with")
    parser.add_argument("--of", metavar="REVISION", help="a commit in place of what lies here")
    asked = parser.parse_args()
    try:
        now = size_of(at(asked.of) if asked.of else here())
        before = size_of(at(asked.against)) if asked.against else None
    except subprocess.CalledProcessError as error:
        print(f"cannot read {error.cmd[-2]}: {error.stderr.decode(errors='replace').strip()}", file=sys.stderr)
        return 3
    if before is None:
        for name, value in now._asdict().items():
            print(f"{name:16} {value:>8,}")
        return 0
    print(f"{'':16} {'before':>8} {'now':>8} {'ratio':>7}")
    for name, value in now._asdict().items():
        then = getattr(before, name)
        print(f"{name:16} {then:>8,} {value:>8,} {value / then if then else 0:>7.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
