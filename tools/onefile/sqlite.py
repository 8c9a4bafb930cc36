# SPDX-License-Identifier: Apache-2.0
"""SQLite from its parts to one file, by its own scripts (tclsh). What they compile runs here: it is the same for every target."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.onefile.steps import Cache, Made, run
from tools.onefile.toolchain import Toolchain

_MADE = ("sqlite3.c", "sqlite3.h")


def make_sqlite(cache: Cache, tools: Toolchain, source: Made) -> Made:
    """`sqlite3.c` and its header. Its helpers hash every source file: without -O2 that takes a minute."""

    def make(folder: Path) -> None:
        tree = folder / "tree"
        shutil.copytree(source.folder, tree)
        compiler = f"{tools.zig} cc -O2 -fno-sanitize=undefined"
        surroundings = {"CC": compiler, **tools.environment}
        run(["./configure", "--disable-tcl", "--disable-readline", "--disable-load-extension"], tree, surroundings)
        run(["make", "sqlite3.c", f"BCC={compiler}"], tree, surroundings)
        for name in _MADE:
            shutil.copy(tree / name, folder)
        shutil.rmtree(tree)

    return cache.step("sqlite", ["sqlite.py"], [tools.made.key, source.key], make)
