# SPDX-License-Identifier: Apache-2.0
"""Builds everything twice from nothing, in folders of different names, and compares: `python -m tools.onefile.compare [ARCH...]`.

Downloads are shared; everything that is compiled or packed is made anew. Takes about ten minutes of a CPU per architecture.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.onefile.__main__ import ARCHITECTURES, TOP
from tools.onefile.steps import Cache


def main() -> None:
    wanted = sys.argv[1:] or list(ARCHITECTURES)
    kept = Cache().folder / "downloads"
    with tempfile.TemporaryDirectory(prefix="zombiescope-onefile-") as scratch:
        sums = [_built(Path(scratch) / name, kept, wanted) for name in ("first", "a/much-longer/second")]
    for name, value in sums[0].items():
        print(f"{name}  {value}  {'identical' if sums[1][name] == value else 'DIFFERENT: ' + sums[1][name]}")
    sys.exit(sums[0] != sums[1])


def _built(folder: Path, kept: Path, wanted: list[str]) -> dict[str, str]:
    """From a copy of the checkout, so that its own folder differs as well."""
    checkout, cache, out = folder / "checkout", folder / "cache", folder / "out"
    for name in ("src", "tools"):
        shutil.copytree(TOP / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(TOP / "LICENSE", checkout)
    cache.mkdir()
    if kept.is_dir():
        (cache / "downloads").symlink_to(kept)
    words = [word for architecture in wanted for word in ("--arch", architecture)]
    command = [sys.executable, "-m", "tools.onefile", *words, "--cache", str(cache), "--out", str(out)]
    subprocess.run(command, cwd=checkout, check=True)
    files = sorted(out.iterdir())
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    shutil.rmtree(folder)
    return sums


if __name__ == "__main__":
    main()
