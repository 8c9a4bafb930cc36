# SPDX-License-Identifier: Apache-2.0
"""Builds dist/zombiescope.pyz: the reading commands and what they import in one file for a plain python3."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipapp
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent


def main() -> None:
    staging, target = TOP / "build" / "pyz", TOP / "dist" / "zombiescope.pyz"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    target.parent.mkdir(exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(staging), str(TOP)], check=True)
    compiled = [path.name for path in staging.rglob("*.so")]
    if compiled:
        sys.exit(f"compiled modules do not belong in the one file: {', '.join(compiled)}")
    for leftover in (*staging.glob("bin"), *staging.rglob("__pycache__")):
        shutil.rmtree(leftover)
    zipapp.create_archive(staging, target, "/usr/bin/env python3", "zombiescope.__main__:main", compressed=True)
    print(f"{target.relative_to(TOP)}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
