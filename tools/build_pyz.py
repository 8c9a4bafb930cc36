# SPDX-License-Identifier: Apache-2.0
"""Builds dist/zombiescope.pyz: the reading commands and what they import in one file for a plain python3.

The same bytes for the same sources: libraries of the versions in requirements-dev.txt, one time for all files.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipapp
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
_EPOCH = 315_532_800
"""1980: a zip knows nothing earlier."""
_MAIN = "import zombiescope.__main__\n\nzombiescope.__main__.main()\n"
_EXTRAS = re.compile(r"\[[^]]*\](?===)")
"""pip takes no constraint that has them."""
_OF_PIP = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
"""What pip notes of how it installed, with paths of this machine."""


def build_pyz(target: Path, source: Path = TOP, seconds: int = _EPOCH) -> None:
    """`source`: the tree, or a wheel of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation"]
    with tempfile.TemporaryDirectory(prefix="zombiescope-pyz-") as scratch:
        staging, versions = Path(scratch) / "pyz", Path(scratch) / "versions.txt"
        pinned = (TOP / "requirements-dev.txt").read_text(encoding="utf-8")
        versions.write_text(_EXTRAS.sub("", pinned), encoding="utf-8")
        pip += ["--no-compile", "--constraint", str(versions)]
        subprocess.run([*pip, "--target", str(staging), str(source)], check=True)
        compiled = [path.name for path in staging.rglob("*.so") if path.name != "libscanner.so"]
        if compiled:
            sys.exit(f"compiled modules do not belong in the one file: {', '.join(compiled)}")
        (staging / "__main__.py").write_text(_MAIN, encoding="utf-8")  # zipapp's own would have the time of now
        _tidy(staging, seconds)
        zipapp.create_archive(staging, target, "/usr/bin/env python3", compressed=True)
    target.chmod(0o755)


def _tidy(staging: Path, seconds: int) -> None:
    for folder in (staging / "bin", *staging.rglob("__pycache__")):
        shutil.rmtree(folder, ignore_errors=True)
    notes = [path for name in _OF_PIP for path in staging.glob(f"*.dist-info/{name}")]
    for path in (*staging.rglob("libscanner.so"), *notes):
        path.unlink()
    for path in staging.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (seconds, seconds))


def main() -> None:
    target = TOP / "dist" / "zombiescope.pyz"
    build_pyz(target)
    print(f"{target.relative_to(TOP)}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
