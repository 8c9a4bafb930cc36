# SPDX-License-Identifier: Apache-2.0
"""The release tier needs root, Debian's mirrors, and the files that `make release` or `make release-short` leaves in dist;
a skip says so, and fails where it is required (ZOMBIESCOPE_REQUIRE=release)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.release.roots import NOBODY, Root, refuse, unpacked

REPOSITORY = Path(__file__).resolve().parents[2]
EXTRAS = ("agent", "fleet", "manifests", "profile", "tui")
RELEASE = Path(os.environ.get("ZOMBIESCOPE_RELEASE") or REPOSITORY / "dist/release").absolute()


@pytest.fixture(scope="session")
def release() -> Path:
    if not (RELEASE / "SHA256SUMS").exists():
        refuse(f"needs {RELEASE} (try: make release)")
    return RELEASE


@pytest.fixture
def enter(release: Path, tmp_path: Path) -> Callable[[str], Root]:
    """A fresh root by its name, with the release in its /root."""
    return lambda name: _with_release(name, tmp_path / name, release)


@pytest.fixture(scope="module")
def make_root(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Root]]:
    """The same for a whole module; gone after it, for each is large."""
    made: list[Root] = []

    def make(name: str) -> Root:
        made.append(_with_release(name, tmp_path_factory.mktemp(name), release))
        return made[-1]

    yield make
    for root in made:
        shutil.rmtree(root.folder)


def _with_release(name: str, folder: Path, release: Path) -> Root:
    kind = {"nobody": "bookworm", "airgapped": "python3.11"}.get(name, name)
    root = unpacked(kind, folder, NOBODY if name == "nobody" else 0, is_offline=name == "airgapped")
    for path in release.iterdir():
        if path.is_file():
            root.put(path)
    return root


@pytest.fixture(scope="session")
def wheels(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Everything that any extra needs, for another Python, as its index would give it."""

    def collected(python: str) -> Path:
        folder = tmp_path_factory.mktemp(f"wheels-{python}")
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary=:all:",
        ]
        command += ["--python-version", python, "--dest", str(folder)]
        command += [f"--platform=manylinux{version}_x86_64" for version in ("2014", "_2_17", "_2_27", "_2_28")]
        wheel = one(release, "zombiescope-*.whl")
        done = subprocess.run(
            [*command, f"{wheel}[{','.join(EXTRAS)}]", "hatchling", "editables"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return folder

    return collected


def one(folder: Path, pattern: str) -> Path:
    """The only file of that kind; without it, the test cannot be told."""
    found = sorted(folder.glob(pattern))
    if not found:
        refuse(f"{folder} has no {pattern} (try: make release)")
    assert len(found) == 1, found
    return found[0]
