# SPDX-License-Identifier: Apache-2.0
"""Remakes src/zombiescope/data/own_words.txt: the words that our own strings spell out, and that a recording therefore may keep.

Keys of outcomes, paths that readers ask for, sentences of gaps: were one of them replaced, a replay would not find it again.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "src/zombiescope/data/own_words.txt"
ROOMS = ("facts", "analysis", "diagnosis", "probes", "pipeline", "kernel", "host", "remedies")
_WORD = re.compile(r"[A-Za-z]{2,}")


def own_words() -> set[str]:
    found: set[str] = set()
    for room in ROOMS:
        for path in sorted((ROOT / "src/zombiescope" / room).rglob("*.py")):
            found |= _words(ast.parse(path.read_text(encoding="utf-8")))
    return found


def _words(tree: ast.Module) -> set[str]:
    """Of every string and bytes literal but documentation, and of every field of a class: records are kept by their fields."""
    spoken = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in spoken:
            texts.append(node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            texts.append(node.target.id)
    return {word.lower() for text in texts if isinstance(text, str) for word in _WORD.findall(text)}


if __name__ == "__main__":
    FILE.write_text("\n".join(sorted(own_words())) + "\n", encoding="ascii")
    print(f"{FILE.relative_to(ROOT)}: {len(own_words()):,} words", file=sys.stderr)
