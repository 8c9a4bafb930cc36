# SPDX-License-Identifier: Apache-2.0
"""A real Python 3.9, Debian 11's: checkout and pyz answer with one sentence that names the needed version and the one file."""

from __future__ import annotations

import platform
import shutil
import subprocess
import zipapp
from pathlib import Path

import pytest
from tests.packages.conftest import _refuse
from tests.vm.archive import BuildError, PrivateApt

SOURCES = Path(__file__).resolve().parents[2] / "src"
PARTS = ("python3.9-minimal", "libpython3.9-minimal")


@pytest.fixture(scope="module")
def old_python(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    if platform.machine() != "x86_64" or not shutil.which("dpkg-deb"):
        _refuse("needs dpkg-deb and a machine of x86_64")
    root = tmp_path_factory.mktemp("python3.9")
    try:
        apt = PrivateApt(tmp_path_factory.mktemp("apt"), ["bullseye-security"])
        apt.update()
        for part in PARTS:
            subprocess.run(["dpkg-deb", "-x", apt.download_one(part), root], check=True)
    except (BuildError, OSError) as error:
        _refuse(f"cannot get Debian's Python 3.9: {error}")
    return ["env", f"PYTHONHOME={root}/usr", f"{root}/usr/bin/python3.9"]


@pytest.fixture(params=["checkout", "pyz"])
def command(request: pytest.FixtureRequest, old_python: list[str], tmp_path: Path) -> list[str]:
    if request.param == "checkout":
        return ["env", f"PYTHONPATH={SOURCES}", *old_python, "-m", "zombiescope"]
    staging = tmp_path / "staging"
    shutil.copytree(
        SOURCES / "zombiescope", staging / "zombiescope", ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    zipapp.create_archive(staging, tmp_path / "zombiescope.pyz", main="zombiescope.__main__:main")
    return [*old_python, str(tmp_path / "zombiescope.pyz")]


def test_it_says_what_is_needed(command: list[str]) -> None:
    ran = subprocess.run([*command, "scan"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (3, ""), ran.stderr
    first, hint = ran.stderr.splitlines()
    assert first.startswith("zombiescope needs Python 3.11 or newer, and this is Python 3.9 (")
    assert "the one-file build, which needs no Python: zombiescope-x86_64 or zombiescope-aarch64" in hint
