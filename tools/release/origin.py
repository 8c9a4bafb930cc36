# SPDX-License-Identifier: Apache-2.0
"""What a release is made of: the files of the repository as somebody gets them, its one version, and its date."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tools.onefile.packing import own_version

TOP = Path(__file__).resolve().parents[2]
ARCHITECTURES = ("x86_64", "aarch64")


class ReleaseError(Exception):
    """What could not be made, and the last words of the program that failed."""


def version() -> str:
    """`__version__` of src/zombiescope/__init__.py is the one place that states it."""
    return own_version()


def date() -> int:
    """Seconds since the epoch of the last commit: the time of every file of a release. SOURCE_DATE_EPOCH goes first."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given) if given else int(run(["git", "log", "-1", "--format=%ct"], TOP))


def refuse_changes() -> None:
    """A release is of a commit: its date, its notes and its sources are the ones that somebody else finds there."""
    changed = run(["git", "status", "--porcelain", "--untracked-files=normal"], TOP).splitlines()
    if changed:
        shown = ", ".join(line[3:] for line in changed[:3]) + (", ..." if len(changed) > 3 else "")
        raise ReleaseError(
            f"the tree is not that of its last commit: {shown} (commit it, or try it with --uncommitted)"
        )


def one_file(out: Path, architecture: str) -> Path:
    """The one of this release; where it is not among what was asked for, that of `make onefile`."""
    for folder in (out, TOP / "dist"):
        if (found := folder / f"zombiescope-{architecture}").exists():
            return found
    raise ReleaseError(f"there is no zombiescope-{architecture} to pack (try: make onefile ARCH={architecture})")


def clean_copy(target: Path) -> Path:
    """Committed files, and those about to be committed; nothing that was built."""
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], TOP)
    for name in filter(None, listed.split("\0")):
        source = TOP / name
        if source.is_symlink() or source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    return target


def stamp(folder: Path, seconds: int) -> None:
    """Every file and folder gets one time, and the modes that do not depend on anybody's umask."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (seconds, seconds), follow_symlinks=False)


def run(command: list[str | Path], folder: Path, **more: str) -> str:
    """Standard output of a program that may not fail."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-3000:]
        raise ReleaseError(f"{' '.join(words[:4])} ended with {done.returncode}:\n{said}")
    return done.stdout
