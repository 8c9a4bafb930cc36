# SPDX-License-Identifier: Apache-2.0
"""Builds the one file twice and compares: `python -m tools.onefile.compare [--out DIR] [ARCH...]`.

Both builds run at once and share only their downloads. Of the second, made from nothing in a folder of another name, the
interpreters are kept under the hash of their recipe: a later release compiles nothing twice, and packs twice all the same,
from a copy of the checkout in another folder.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.onefile.__main__ import ARCHITECTURES, TOP
from tools.onefile.pins import COMPILER, DATE, PYTHON, SOURCES
from tools.onefile.steps import HERE, BuildError, Cache, Made

_PACKED_BY = (
    "__init__.py",
    "__main__.py",
    "bill.py",
    "compare.py",
    "ctypes_names.py",
    "pack.py",
    "packing.py",
    "pins.py",
    "take_patches.py",
)
"""What has no part in compiling; of the pins, those that have are named."""


def compared(wanted: Sequence[str], out: Path, cache: Cache) -> dict[str, tuple[str, str]]:
    """Builds into `out`; the SHA-256 of every file there and of its twin."""
    words = [word for architecture in wanted for word in ("--arch", architecture)]
    with tempfile.TemporaryDirectory(prefix="zombiescope-onefile-") as scratch:
        # Copies, so that nobody changes the sources between the two.
        one, other, twins = (Path(scratch) / name for name in ("one", "a/much-longer/other", "twins"))
        _copy_checkout(one)
        _copy_checkout(other)
        with ThreadPoolExecutor(2) as both:
            first = both.submit(_build, one, ["--cache", str(cache.folder), "--out", str(out.absolute()), *words])
            second = both.submit(make_again, cache, wanted)
            first.result()
            again = second.result()
        _build(other, ["--cache", str(cache.folder), "--cores", str(again.folder), "--out", str(twins), *words])
        names = sorted(path.name for path in twins.iterdir())
        return {name: (_sha256(out / name), _sha256(twins / name)) for name in names}


def make_again(cache: Cache, wanted: Sequence[str]) -> Made:
    """The interpreters once more, compiled from nothing: `ARCH/core` each."""

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="zombiescope-onefile-again-", dir=cache.folder) as scratch:
            checkout, own = Path(scratch) / "checkout", Path(scratch) / "own-cache"
            _copy_checkout(checkout)
            own.mkdir()
            (cache.folder / "downloads").mkdir(exist_ok=True)
            (own / "downloads").symlink_to(cache.folder / "downloads")
            words = [word for architecture in wanted for word in ("--arch", architecture)]
            _build(checkout, ["--cache", str(own), "--out", str(Path(scratch) / "out"), *words])
            for architecture in wanted:
                (core,) = own.glob(f"core-{architecture}-*/core")
                (folder / architecture).mkdir()
                shutil.copy(core, folder / architecture / "core")

    recipe = [path for folder in (HERE, HERE / "core", HERE / "patches") for path in sorted(folder.iterdir())]
    names = [str(path.relative_to(HERE)) for path in recipe if path.is_file() and path.name not in _PACKED_BY]
    return cache.step(f"again-{'-'.join(wanted)}", names, [repr((SOURCES, COMPILER, PYTHON, DATE))], make)


def _copy_checkout(target: Path) -> None:
    for name in ("src", "tools"):
        shutil.copytree(TOP / name, target / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(TOP / "LICENSE", target)


def _build(checkout: Path, words: list[str]) -> None:
    command = [sys.executable, "-m", "tools.onefile", *words]
    if subprocess.run(command, cwd=checkout, check=False).returncode:
        raise BuildError(f"{' '.join(command[1:])} failed in {checkout}")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tools.onefile.compare", description=__doc__)
    asked.add_argument("arch", nargs="*", default=list(ARCHITECTURES), help="default: both")
    asked.add_argument("--out", type=Path, default=TOP / "dist")
    asked.add_argument("--cache", type=Path, help="default: that of python -m tools.onefile")
    given = asked.parse_args()
    try:
        sums = compared(given.arch, given.out, Cache(given.cache))
    except BuildError as error:
        sys.exit(f"onefile: {error}")
    for name, (ours, twin) in sums.items():
        print(f"{name}  {ours}  {'built twice, identical' if ours == twin else f'DIFFERENT: {twin}'}")
    sys.exit(any(ours != twin for ours, twin in sums.values()))


if __name__ == "__main__":
    main()
