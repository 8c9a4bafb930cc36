# SPDX-License-Identifier: Apache-2.0
"""What the gate's own tier needs: a kernel for libguestfs where /boot has none, a candidate to boot, a program for its inside.
A host that lacks something skips with the reason; ZOMBIESCOPE_REQUIRE=gate makes that a failure."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zombiescope/gate"
NOBODY = 65534


def refuse(reason: str) -> None:
    (pytest.fail if "gate" in os.environ.get("ZOMBIESCOPE_REQUIRE", "").split(",") else pytest.skip)(reason)


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            refuse(f"{program} is not installed")


@pytest.fixture(scope="session")
def guestfs() -> Iterator[dict[str, str]]:
    """The surroundings in which an unprivileged user starts libguestfs. Not below pytest's folder: every pytest closes that."""
    need("guestfish", "qemu-img", "depmod", "dpkg-deb")
    if os.geteuid() != 0:
        refuse("another user is played by root")
    home = Path(tempfile.mkdtemp(prefix="zombiescope-gate-", dir="/var/tmp"))
    os.chown(home, NOBODY, NOBODY)
    yield {
        **kernel_surroundings(),
        "LIBGUESTFS_CACHEDIR": str(home),
        "LIBGUESTFS_TMPDIR": str(home),
        "TMPDIR": str(home),
        "HOME": str(home),
        "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin",
    }
    shutil.rmtree(home, ignore_errors=True)


def kernel_surroundings() -> dict[str, str]:
    """What libguestfs has to be told where /boot has no kernel. As root."""
    kernel = _kernel()
    version = next((kernel / "lib/modules").iterdir()).name
    Path("/lib/modules").mkdir(exist_ok=True)  # supermin looks at it, whatever it is told
    return {
        "SUPERMIN_KERNEL": str(kernel / "boot" / f"vmlinuz-{version}"),
        "SUPERMIN_KERNEL_VERSION": version,
        "SUPERMIN_MODULES": str(kernel / "lib/modules" / version),
        "LIBGUESTFS_BACKEND": "direct",
    }


def _kernel() -> Path:
    """Debian's cloud kernel, unpacked and not installed, where anybody can read it."""
    folder = Path("/var/tmp/zombiescope-gate-kernel")
    if (folder / "lib/modules").is_dir() and folder.stat().st_uid == os.geteuid():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    if not list(CACHE.glob("linux-image-*.deb")):
        said = subprocess.run(
            ["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True, check=False
        )
        name = re.search(r"Depends: (linux-image-\S+)", said.stdout)
        command = [
            "apt-get",
            "download",
            "-qq",
            "-o",
            "APT::Sandbox::User=root",
            name[1] if name else "linux-image-cloud-amd64",
        ]
        done = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, check=False)
        if done.returncode:
            refuse(f"no kernel for libguestfs: {done.stderr.strip()[-300:]}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    subprocess.run(["dpkg-deb", "-x", next(iter(CACHE.glob("linux-image-*.deb"))), folder], check=True)
    modules = folder / "lib/modules"
    if not modules.is_dir():  # newer packages have them below /usr
        modules.parent.mkdir(exist_ok=True)
        modules.symlink_to("../usr/lib/modules")
    depmod = shutil.which("depmod", path="/usr/sbin:/sbin:/usr/bin:/bin") or "depmod"
    subprocess.run([depmod, "-b", folder, next(modules.iterdir()).name], check=True)
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    return folder


@pytest.fixture(scope="session")
def inside_program() -> Path:
    """The one-file build where it is made; else the .pyz, for images that have a Python."""
    given = os.environ.get("ZOMBIESCOPE_ONEFILE")
    built = Path(given) if given else REPOSITORY / "dist/zombiescope-x86_64"
    if not built.exists() and (REPOSITORY / "tools/onefile").is_dir():
        subprocess.run([sys.executable, "-m", "tools.onefile", "--arch", "x86_64"], cwd=REPOSITORY, check=True)
    if not built.exists():
        subprocess.run([sys.executable, "tools/build_pyz.py"], cwd=REPOSITORY, check=True)
        built = REPOSITORY / "dist/zombiescope.pyz"
    return built
