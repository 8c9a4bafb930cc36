# SPDX-License-Identifier: Apache-2.0
"""The one file alone in a root: first without even /proc, then with /proc and /sys. Every command answers there."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

WITHOUT_PROC = [
    (("--version",), 0),
    (("--help",), 0),
    (("explain", "zombie-population"), 0),
    (("export", "unit"), 0),
    (("export", "rules"), 0),
    (("export", "dashboard"), 0),
    (("completion", "bash"), 0),
    (("licenses",), 0),
    (("licenses", "CPython"), 0),
    (("scan",), 3),
    (("autopsy",), 3),
    (("self-check",), 3),
    (("profile", "heatmap"), 2),
    (("lab", "incident", "--vm"), 3),
]
WITH_PROC = [
    ("scan", "--json"),
    ("autopsy", "--json", "--limit", "1"),
    ("doctor", "--json", "--seconds", "0"),
    ("check", "--json"),
    ("self-check", "--json"),
]


@pytest.fixture(scope="module")
def bare(one_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bare")
    shutil.copy(one_file, root / "zombiescope")
    for name in ("proc", "sys"):
        (root / name).mkdir()
    return root


def run(root: Path, *words: str, mounted: bool = False) -> subprocess.CompletedProcess[str]:
    """In a mount namespace of its own: nothing stays mounted."""
    mounts = f"mount --rbind /proc {root}/proc && mount --rbind /sys {root}/sys && " if mounted else ""
    script = f'{mounts}exec chroot {root} /zombiescope "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize(
    ("words", "status"),
    WITHOUT_PROC,
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else str(value),
)
def test_without_proc_and_sys_it_starts_and_says_what_is_missing(
    bare: Path, words: tuple[str, ...], status: int
) -> None:
    done = run(bare, *words)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert "this is a bug" not in done.stderr
    assert done.stdout if status == 0 else done.stderr or done.stdout


@pytest.mark.parametrize("words", WITH_PROC, ids=lambda words: words[0])
def test_with_proc_and_sys_it_does_its_work(bare: Path, words: tuple[str, ...]) -> None:
    done = run(bare, *words, mounted=True)
    assert done.returncode == 0 or words[0] == "check", done.stderr
    told = json.loads(done.stdout)
    assert told["schema"] == f"zombiescope.{words[0]}/1"
    assert "Traceback" not in done.stderr


def test_nothing_was_unpacked(bare: Path) -> None:
    assert [path.name for path in bare.rglob("*") if path.is_file()] == ["zombiescope"]
