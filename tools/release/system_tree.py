# SPDX-License-Identifier: Apache-2.0
"""The files of the system packages, .deb and .rpm: the one file, its unit, preset, manual pages, completion, configuration."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from pathlib import Path

from tools.release.origin import TOP, run

FILES = Path(__file__).with_name("files")
CONFIGURATION = "etc/zombiescope.toml"
EXAMPLE = "usr/share/doc/zombiescope/examples/zombiescope.toml"
UNIT = "zombiescope.service"
PROGRAM = "usr/bin/zombiescope"
_COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/zombiescope",
    "zsh": "usr/share/zsh/{zsh}/_zombiescope",
    "fish": "usr/share/fish/vendor_completions.d/zombiescope.fish",
}


def plant(root: Path, one_file: Path, zsh: str) -> None:
    """`zsh`: where the distribution keeps completions of packages: vendor-completions or site-functions."""
    _put(root / PROGRAM, one_file.read_bytes(), 0o755)
    _put(root / f"usr/lib/systemd/system/{UNIT}", _said("export", "unit", "--program", f"/{PROGRAM}"))
    _put(root / "usr/lib/systemd/system-preset/80-zombiescope.preset", (FILES / "zombiescope.preset").read_bytes())
    for shell, place in _COMPLETIONS.items():
        _put(root / place.format(zsh=zsh), _said("completion", shell))
    _put(root / CONFIGURATION, (FILES / "zombiescope.toml").read_bytes())
    _put(root / EXAMPLE, example().encode())
    _plant_manual(root / "usr/share/man/man1")


def _plant_manual(folder: Path) -> None:
    folder.mkdir(parents=True)
    run([sys.executable, "-B", TOP / "tools/write_man.py", folder], TOP)
    for page in sorted(folder.iterdir()):
        _put(page.with_name(page.name + ".gz"), packed(page.read_bytes()))
        page.unlink()


def packed(content: bytes) -> bytes:
    """As `gzip -9n`: neither a name nor a time inside."""
    return gzip.compress(content, 9, mtime=0)


def example() -> str:
    """Every key with its default, commented out. Not in the configuration itself: a package that changes a file which somebody
    edited makes dpkg ask, and end an upgrade that nobody watches."""
    sys.path[:0] = [str(TOP / "src")]
    from zombiescope.config import KEYS, PROFILE_KEYS  # noqa: PLC0415 (of this checkout, whatever is installed)

    lines = (FILES / "example.toml").read_text(encoding="utf-8").splitlines()
    for table, keys in (("agent", KEYS), ("profile", PROFILE_KEYS)):
        lines += ["", f"[{table}]"]
        for key in keys:  # JSON writes strings, numbers and truths as TOML does
            lines += ["", f"# {key.meaning} ({key.unit})", f"#{key.name} = {json.dumps(key.default)}"]
    return "\n".join(lines) + "\n"


def _said(*words: str) -> bytes:
    """By the program of this checkout: the same for every architecture."""
    return run([sys.executable, "-B", "-m", "zombiescope", *words], TOP, PYTHONPATH=str(TOP / "src")).encode()


def _put(place: Path, content: bytes, mode: int = 0o644) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    place.chmod(mode)


def copied(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
