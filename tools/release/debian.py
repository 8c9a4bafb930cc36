# SPDX-License-Identifier: Apache-2.0
"""The .deb of the one file: one tree, no compiler, no debhelper; the same bytes for the same sources."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from tools.release.origin import ReleaseError, date, run, stamp, version
from tools.release.system_tree import CONFIGURATION, FILES, copied, packed, plant

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
MAINTAINER = "The Zombiescope authors <maintainers@zombiescope.example>"
_SUMMARY = "finds, explains and removes zombie memory cgroups"
_DESCRIPTION = """\
 When a memory cgroup is removed while something it was charged for is still
 in memory, the kernel keeps it, and no tool shows it. Tens of thousands of
 these zombies make memory reclaim hold a core until the network starves.
 .
 This tool counts them, names who made them, what holds them and what frees
 them, and undoes what it changed. The agent watches a host and serves metrics.
 It is one static program that needs neither Python nor a C library.
"""


def make_deb(one_file: Path, architecture: str, out: Path, revision: int = 1, packing: str = "xz") -> Path:
    """`revision`: of the package, where the program is the same. `packing`: as dpkg-deb names it; `none` for a try."""
    seconds, full = date(), f"{version()}-{revision}"
    target = out / f"zombiescope_{full}_{ARCHITECTURES[architecture]}.deb"
    with tempfile.TemporaryDirectory(prefix="zombiescope-deb-") as scratch:
        root = Path(scratch) / "root"
        plant(root, one_file, "vendor-completions")
        _plant_documents(root, one_file, full, seconds)
        _plant_control(root, ARCHITECTURES[architecture], full)
        stamp(root, seconds)
        command: list[str | Path] = [
            "dpkg-deb",
            "--root-owner-group",
            f"-Z{packing}",
            "--build",
            root,
            target.absolute(),
        ]
        run(command, Path(scratch), SOURCE_DATE_EPOCH=str(seconds))
    return target


def _plant_documents(root: Path, one_file: Path, full: str, seconds: int) -> None:
    folder = root / "usr/share/doc/zombiescope"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "copyright").write_text(_copyright(one_file), encoding="utf-8")
    when = format_datetime(datetime.fromtimestamp(seconds, UTC))
    entry = (
        f"zombiescope ({full}) stable; urgency=medium\n\n  * Version {version()}: the changes are in NEWS.md.gz.\n\n"
    )
    entry += f" -- {MAINTAINER}  {when}\n"
    (folder / "changelog.Debian.gz").write_bytes(packed(entry.encode()))
    (folder / "NEWS.md.gz").write_bytes(packed((FILES.parents[2] / "CHANGELOG.md").read_bytes()))
    copied(FILES / "lintian-overrides", root / "usr/share/lintian/overrides/zombiescope")


def _copyright(one_file: Path) -> str:
    """Machine-readable; a stanza per licence of what is inside, from the bill of materials beside the file."""
    bill = json.loads(one_file.with_name(f"{one_file.name}.cdx.json").read_text(encoding="utf-8"))
    parts: dict[str, list[str]] = {}
    for part in bill["components"]:
        parts.setdefault(part["licenses"][0]["expression"], []).append(f"{part['name']} {part['version']}")
    apache = " On Debian systems the text is in /usr/share/common-licenses/Apache-2.0."
    text = (FILES / "copyright.head").read_text(encoding="utf-8")
    text += f"\nFiles: *\nCopyright: 2026 the Zombiescope authors\nLicense: Apache-2.0\n{apache}\n"
    for licence, names in sorted(parts.items()):
        inside = "\n".join(f" {name}" for name in names)
        short = licence.replace(" AND ", " and ")
        text += (
            f"\nFiles: usr/bin/zombiescope\nCopyright: 2026 and earlier, the authors of these parts\nLicense: {short}\n"
        )
        text += f" Inside, under this licence:\n{inside}\n .\n The text: zombiescope licenses NAME\n"
    return text


def _plant_control(root: Path, architecture: str, full: str) -> None:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    kilobytes = sum(-(-path.stat().st_size // 1024) for path in files)
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files]
    control = root / "DEBIAN"
    control.mkdir()
    fields = {
        "Package": "zombiescope",
        "Version": full,
        "Architecture": architecture,
        "Maintainer": MAINTAINER,
        "Installed-Size": str(kilobytes),
        "Section": "admin",
        "Priority": "optional",
        "Description": f"{_SUMMARY}\n{_DESCRIPTION.rstrip()}",
    }
    (control / "control").write_text("".join(f"{name}: {value}\n" for name, value in fields.items()), encoding="utf-8")
    (control / "conffiles").write_text(f"/{CONFIGURATION}\n", encoding="utf-8")
    (control / "md5sums").write_text("".join(line for line in sums if CONFIGURATION not in line), encoding="utf-8")
    for name in ("postinst", "prerm", "postrm"):
        copied(FILES / name, control / name)
        (control / name).chmod(0o755)


def lint(package: Path) -> None:
    """No error and no warning that is not argued in files/lintian-overrides. Raises ReleaseError."""
    command = ["lintian", "--fail-on", "error,warning", "--tag-display-limit", "0", str(package)]
    command += ["--allow-root"] if os.geteuid() == 0 else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"lintian: {done.stdout.strip()} {done.stderr.strip()}")
