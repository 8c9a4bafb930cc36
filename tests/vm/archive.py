# SPDX-License-Identifier: Apache-2.0
"""Debian's archive through a private apt root: indexes, closures, downloads. The machine's own apt is left alone.

The mirror is the one this machine is configured with, so a proxy, a local mirror and credentials keep working.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_RELEASE = re.compile(
    r"^'(?P<mirror>\S+?)/+dists/(?P<suite>[a-z]+)(?P<security>-security|/updates)?/InRelease'", re.MULTILINE
)


class BuildError(Exception):
    """The machine could not be built: what, why, hint."""

    def __init__(self, what: str, why: str, hint: str = "") -> None:
        super().__init__(f"{what}: {why}" + (f" (try: {hint})" if hint else ""))


def run(command: Sequence[str]) -> str:
    """Standard output of a program; its last words become the error."""
    done = subprocess.run(
        command, check=False, text=True, errors="replace", capture_output=True, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        why = " | ".join((done.stderr or done.stdout).strip().splitlines()[-4:])
        raise BuildError(" ".join(command[:2]), why or f"exit status {done.returncode}")
    return done.stdout


def mirrors(listing: str) -> tuple[str, str]:
    """The main and the security mirror out of `apt-get update --print-uris`."""
    main = security = ""
    for match in _RELEASE.finditer(listing):
        if match["security"]:
            security = security or match["mirror"]
        elif match["suite"] in {"bookworm", "trixie", "bullseye", "sid", "forky"}:
            main = main or match["mirror"]
    if not main:
        raise BuildError("no Debian mirror", "apt on this machine lists no Debian suite", "apt-get update --print-uris")
    return main, security or re.sub(r"debian$", "debian-security", main)


class PrivateApt:
    """One apt root with the given suites and an empty dpkg status: a dependency closure is complete, of any architecture."""

    def __init__(self, root: Path, suites: Sequence[str], architecture: str = "amd64") -> None:
        self.root, self._architecture = root, architecture
        for folder in ("lists/partial", "cache/archives/partial"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "status").write_text("")
        main, security = mirrors(run(["apt-get", "update", "--print-uris"]))
        lines = [
            f"deb [signed-by={KEYRING}] {security if suite.endswith('-security') else main} {suite} main"
            for suite in suites
        ]
        (root / "sources.list").write_text("\n".join(lines) + "\n")

    def update(self) -> int:
        """Fetches the indexes; returns their size in bytes."""
        self._apt("apt-get", "update", "-qq")
        return sum(path.stat().st_size for path in (self.root / "lists").iterdir() if path.is_file())

    def versions(self, pattern: str) -> list[tuple[str, str]]:
        """Name and version of each package whose name matches and that is larger than a pointer to another."""
        found: list[tuple[str, str]] = []
        for record in self._apt("apt-cache", "dumpavail").split("\n\n"):
            fields = dict(re.findall(r"^(Package|Version|Size): (\S+)$", record, re.MULTILINE))
            if re.fullmatch(pattern, fields.get("Package", "")) and int(fields.get("Size", "0")) > 5_000_000:
                found.append((fields["Package"], fields["Version"]))
        return found

    def download(self, packages: Sequence[str]) -> list[Path]:
        """The packages and all they depend on, as .deb files."""
        archives = self.root / "cache" / "archives"
        for leftover in archives.glob("*.deb"):
            leftover.unlink()
        self._apt("apt-get", "install", "-qq", "-y", "--download-only", "--no-install-recommends", *packages)
        return sorted(archives.glob("*.deb"))

    def download_one(self, package: str) -> Path:
        """One package without what it depends on."""
        folder = self.root / "one"
        folder.mkdir(exist_ok=True)
        for leftover in folder.glob("*.deb"):
            leftover.unlink()
        self._apt("apt-get", "download", "-qq", package, folder=folder)
        return next(folder.glob("*.deb"))

    def _apt(self, program: str, *arguments: str, folder: Path | None = None) -> str:
        root = self.root
        places = {
            "Dir::State::lists": root / "lists",
            "Dir::State::status": root / "status",
            "Dir::Cache": root / "cache",
            "Dir::Etc::sourcelist": root / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::preferences": "-",
            "Dir::Etc::preferencesparts": "-",
            "APT::Architecture": self._architecture,
            "APT::Architectures": self._architecture,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "Debug::NoLocking": "1",
        }
        options = [word for key, value in places.items() for word in ("-o", f"{key}={value}")]
        command = [program, *options, *arguments]
        return run(command if folder is None else ["env", "-C", str(folder), *command])
