# SPDX-License-Identifier: Apache-2.0
"""Downloads what is pinned, and nothing else: whatever arrives is compared with its hash before anybody reads it.

Sources come from the Debian mirrors that apt is configured with (or `--mirror`, for one that keeps old revisions), wheels
through pip with its own configuration.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tools.onefile.pins import Source, Wheel
from tools.onefile.steps import HERE, BuildError, run

_MIRROR = re.compile(r"^'(\S+?)/+dists/\S+/InRelease'", re.MULTILINE)
_TIMEOUT = 120


def unpack_source(source: Source, mirrors: Sequence[str], downloads: Path, into: Path) -> None:
    """The archive in `into`, without its top folder, with Debian's fixes applied."""
    archive = _source(source, mirrors, downloads)
    run(["tar", "-x", "-f", archive, "-C", into, "--strip-components=1", "--no-same-owner"], into)
    patch = HERE / "patches" / f"{source.name}.patch"
    if patch.exists():
        run(["patch", "--silent", "--batch", "--fuzz=0", "-p1", "-N", "-i", patch], into)
        for leftover in into.rglob("*.orig"):
            leftover.unlink()


def unpack_wheel(wheel: Wheel, downloads: Path, into: Path, platform: str = "") -> None:
    folder = downloads / "wheels"
    wanted = [f"{wheel.name}=={wheel.version}", *(f"--hash=sha256:{value}" for value in wheel.hashes)]
    folder.mkdir(parents=True, exist_ok=True)
    asked = into / "requirement.txt"
    asked.write_text(" ".join(wanted) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--require-hashes", "-r", str(asked)]
    if wheel.python:
        command += ["--platform", "manylinux2014_x86_64", "--implementation", "cp", "--python-version", wheel.python]
    command += ["--platform", platform] if platform else []
    if not (found := _kept_wheel(wheel, folder)):
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fresh-") as fresh:  # two builds at once may want the same
            command += ["--dest", fresh]
            # With the caller's settings of pip.
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode:
                raise BuildError(f"pip cannot download {wheel.name} {wheel.version}:\n{done.stderr.strip()}")
            for path in Path(fresh).glob("*.whl"):
                path.replace(folder / path.name)
        found = _kept_wheel(wheel, folder)
    asked.unlink()
    if found is None:
        raise BuildError(f"pip downloaded no {wheel.name} {wheel.version} with the pinned hash")
    with zipfile.ZipFile(found) as members:
        members.extractall(into)


def _kept_wheel(wheel: Wheel, folder: Path) -> Path | None:
    spelled = wheel.name.replace("-", "_")
    kept = folder.glob(f"{spelled}-{wheel.version}-*.whl")
    return next((path for path in kept if _sha256(path) in wheel.hashes), None)


def debian_mirrors() -> list[str]:
    listing = run(["apt-get", "update", "--print-uris"], Path("/"))
    return list(dict.fromkeys(found for found in _MIRROR.findall(listing) if "debian" in found))


def _source(source: Source, mirrors: Sequence[str], downloads: Path) -> Path:
    place = downloads / source.file
    if place.exists() and _sha256(place) == source.sha256:
        return place
    downloads.mkdir(parents=True, exist_ok=True)
    failures = []
    for mirror in mirrors or debian_mirrors():
        fresh = place.with_name(f".{place.name}.{os.getpid()}")
        try:
            address = f"{mirror.rstrip('/')}/{source.path}"
            with urllib.request.urlopen(address, timeout=_TIMEOUT) as answer, fresh.open("wb") as file:
                shutil.copyfileobj(answer, file)
        except (OSError, ValueError) as error:
            failures.append(str(error))
            continue
        if _sha256(fresh) == source.sha256:
            fresh.replace(place)
            return place
        fresh.unlink()
        failures.append("another hash than the pinned one")
    why = "; ".join(failures) or "apt is configured with no Debian mirror"
    raise BuildError(f"cannot download {source.file}: {why}\nhint: --mirror URL of a Debian mirror that keeps it")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
