# SPDX-License-Identifier: Apache-2.0
"""Bare roots of Debian suites, made once by mmdebstrap and kept as archives; each test unpacks its own and enters it.

They hold what the suite calls essential, and apt. Those named after a Python have it as well, with venv.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.vm.archive import KEYRING, BuildError, mirrors, run

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zombiescope/roots"
NOBODY = 65534
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PYTHON = ("python3", "python3-venv")


class Recipe(NamedTuple):
    suite: str
    packages: tuple[str, ...] = ()


RECIPES = {
    "bookworm": Recipe("bookworm"),
    "trixie": Recipe("trixie"),
    "python3.11": Recipe("bookworm", _PYTHON),
    "python3.13": Recipe("trixie", _PYTHON),
    "python3.14": Recipe("forky", _PYTHON),
    "registry": Recipe("bookworm", ("skopeo", "docker-registry")),
    "rpm": Recipe("trixie", ("rpm",)),
    "machine": Recipe("bookworm", ("systemd", "systemd-sysv", "dbus", "kmod", "procps", "mawk")),
}


class Ran(NamedTuple):
    status: int
    said: str


class Root:
    """One unpacked root. `entered` runs a script in it, with /proc, /sys and /dev of the host, in a mount namespace of its own."""

    def __init__(self, folder: Path, user: int = 0, *, is_offline: bool = False) -> None:
        self.folder, self.user, self.is_offline = folder, user, is_offline

    def put(self, source: Path, name: str = "") -> None:
        """Into its /root, which everybody may read."""
        place = self.folder / "root"
        place.mkdir(exist_ok=True)
        place.chmod(0o755)
        shutil.copy2(source, place / (name or source.name))

    def entered(self, script: str, seconds: float = 60, **more: str) -> Ran:
        return self._run(["/bin/bash", "-eu", "-c", script], seconds, more)

    def executed(self, words: list[str], seconds: float = 60) -> Ran:
        """Without a shell: an empty root has none."""
        return self._run(words, seconds, {})

    def _run(self, words: list[str], seconds: float, more: dict[str, str]) -> Ran:
        mounts = [f"mount --bind {self.folder} {self.folder}"]  # a root is a mount: rpm makes its own private
        mounts += [f"mkdir -p {self.folder}/{name}; mount --rbind /{name} {self.folder}/{name}" for name in _MOUNTED]
        enter = f'exec chroot --userspec={self.user}:{self.user} {self.folder} "$@"'
        outside = ["unshare", "--mount", *(["--net"] if self.is_offline else []), "--propagation", "private"]
        outside += ["sh", "-ec", "; ".join([*mounts, enter]), "sh"]
        variables = {"PATH": _PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **more}
        inside = words
        if (self.folder / "usr/bin/env").exists():
            inside = ["/usr/bin/env", "-C", "/root", *words]
        done = subprocess.run(
            [*outside, *inside],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(errors="backslashreplace"))

    def files(self) -> set[str]:
        """Everything that is not a mount point of ours, and no cache or log of the package manager."""
        found = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}
        return {name for name in found if not name.startswith(_IGNORED)}


_MOUNTED = ("proc", "sys", "dev")
_IGNORED = (
    "proc",
    "sys",
    "dev",
    "root",
    "var/log",
    "var/cache",
    "var/lib/dpkg",
    "var/lib/apt",
    "var/lib/rpm",
    "tmp",
    "var/tmp",
)


def refuse(reason: str) -> None:
    (pytest.fail if "release" in os.environ.get("ZOMBIESCOPE_REQUIRE", "").split(",") else pytest.skip)(reason)


def unpacked(name: str, folder: Path, user: int = 0, *, is_offline: bool = False) -> Root:
    if os.geteuid() != 0:
        refuse("roots are entered by root")
    folder.mkdir(parents=True, exist_ok=True)
    if name != "empty":
        subprocess.run(["tar", "-x", "-f", archive(name), "-C", folder], check=True)
    return Root(folder, user, is_offline=is_offline)


def archive(name: str) -> Path:
    recipe = RECIPES[name]
    kept = CACHE / f"{name}-{hashlib.sha256(repr(recipe).encode()).hexdigest()[:8]}.tar"
    if kept.exists():
        return kept
    if not shutil.which("mmdebstrap"):
        refuse("mmdebstrap is not installed")
    CACHE.mkdir(parents=True, exist_ok=True)
    fresh = CACHE / f".{kept.name}.{os.getpid()}"
    command = ["mmdebstrap", "--variant=apt", "--mode=root", "--quiet", "--format=tar", f"--keyring={KEYRING}"]
    # A mirror that is not updated every day serves testing with a date that is over.
    command += ["--aptopt=Acquire::Languages none", "--aptopt=Acquire::Check-Valid-Until false"]
    command += [f"--include={','.join(recipe.packages)}"] if recipe.packages else []
    try:
        main, _ = mirrors(run(["apt-get", "update", "--print-uris"]))
        run([*command, recipe.suite, str(fresh), main])
    except BuildError as error:
        refuse(f"cannot make a root of {recipe.suite}: {error}")
    fresh.replace(kept)
    return kept
