# SPDX-License-Identifier: Apache-2.0
"""Builds the optional scanner beside its sources when there is a C compiler; without one, says so and is content."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "src/zombiescope/profiler/files"
SOURCES = [FOLDER / name for name in ("scanner.c", "follow.c", "naming.c")]
TARGET = FOLDER / "libscanner.so"
FLAGS = ["-std=gnu99", "-O3", "-Wall", "-Wextra", "-fPIC", "-shared"]


def build(target: Path = TARGET, extra: tuple[str, ...] = ()) -> bool:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return False
    fresh = target.with_suffix(".so.new")
    built = subprocess.run([compiler, *FLAGS, *extra, "-o", fresh, *SOURCES], check=False)
    if built.returncode == 0:
        fresh.replace(target)
    return built.returncode == 0


if __name__ == "__main__":
    if not build():
        print("no C compiler: profiles are imported with numpy alone")
