# SPDX-License-Identifier: Apache-2.0
"""The source distribution, the wheel that is built from it, and the .pyz that is packed from the wheel."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tools.build_pyz import build_pyz
from tools.release.origin import clean_copy, date, run, stamp, version


def make_dists(out: Path) -> list[Path]:
    """By PEP 517 from a clean copy of the tree; the wheel from the unpacked sdist, so that nothing is missing in it."""
    seconds = date()
    with tempfile.TemporaryDirectory(prefix="zombiescope-dists-") as scratch:
        tree = clean_copy(Path(scratch) / "tree")
        stamp(tree, seconds)
        command: list[str | Path] = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out.absolute(), tree]
        run(command, tree, SOURCE_DATE_EPOCH=str(seconds))
    return [out / f"zombiescope-{version()}.tar.gz", out / f"zombiescope-{version()}-py3-none-any.whl"]


def make_pyz(out: Path) -> list[Path]:
    target = out / "zombiescope.pyz"
    build_pyz(target, out / f"zombiescope-{version()}-py3-none-any.whl", date())
    return [target]
