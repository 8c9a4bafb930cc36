# SPDX-License-Identifier: Apache-2.0
"""A build in steps, each kept under the hash of everything that it was made from.

A step's folder appears whole or not at all: it is made beside its place and renamed. Two builds at once do the work
twice and agree. Nothing is ever changed in a folder that is kept.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
_KEPT = re.compile(r"-[0-9a-f]{24}$")
_UNUSED_SECONDS = 30 * 86_400


class BuildError(Exception):
    """What could not be built, and the last words of the program that failed."""


class Made(NamedTuple):
    """A step that is done: its folder, and the hash of all that went into it."""

    folder: Path
    key: str


class Cache:
    """The folder of all steps; `${XDG_CACHE_HOME:-~/.cache}/zombiescope/onefile` unless told."""

    def __init__(self, folder: Path | None = None) -> None:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.folder = (folder or base / "zombiescope" / "onefile").absolute()
        self.folder.mkdir(parents=True, exist_ok=True)

    def step(self, name: str, recipe: Sequence[str], inputs: Sequence[str], make: Callable[[Path], None]) -> Made:
        """`recipe`: files of this folder whose text decides the outcome; `inputs`: keys and names of what goes in."""
        key = _hash([name, *inputs, *((HERE / file).read_text(encoding="utf-8") for file in recipe)])
        place = self.folder / f"{name}-{key[:24]}"
        if not place.is_dir():
            self._make(name, place, make)
        os.utime(place)
        return Made(place, key)

    def forget_unused(self) -> None:
        """Steps of recipes that nobody has followed for a month."""
        for place in self.folder.iterdir():
            if _KEPT.search(place.name) and time.time() - place.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(place, ignore_errors=True)

    def _make(self, name: str, place: Path, make: Callable[[Path], None]) -> None:
        began, used = time.monotonic(), _cpu_seconds()
        fresh = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=self.folder))
        try:
            make(fresh)
            fresh.chmod(0o755)
            try:
                fresh.rename(place)
            except OSError:
                if not place.is_dir():  # somebody else was faster, and made the same
                    raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        say(f"{name}: {time.monotonic() - began:.0f} s, {_cpu_seconds() - used:.0f} s of CPU")


def _hash(parts: Sequence[str]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part.encode()).digest())
    return total.hexdigest()


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def say(line: str) -> None:
    print(f"onefile: {line}", file=sys.stderr, flush=True)


def run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Standard output of a program that may not fail; it sees PATH, HOME and what it is given, nothing else."""
    plain = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**plain, "LC_ALL": "C.UTF-8", **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        words = "\n".join((done.stdout + done.stderr).strip().splitlines()[-30:])
        raise BuildError(f"{' '.join(str(word) for word in command[:3])} failed:\n{words}")
    return done.stdout
