# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.image [--out FILE] [--from FOLDER] [--arch NAME ...]`: the image, offline, from dist/zombiescope-ARCH."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from tools.image.oci import BILL, Descriptor, Entry, Layout
from tools.onefile.packing import own_version

TOP = Path(__file__).resolve().parents[2]
NAME = "docker.io/library/zombiescope"
"""What `image: zombiescope:VERSION` means to a node: the image can be imported and used as it is, or pushed elsewhere."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
NOBODY = 65532
_STATE = "var/lib/zombiescope"


def labels() -> dict[str, str]:
    return {
        "org.opencontainers.image.title": "zombiescope",
        "org.opencontainers.image.version": own_version(),
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.description": "Finds, explains and prevents zombie memory cgroups",
    }


def entries(program: bytes, bill: bytes) -> list[Entry]:
    """The one file, an account, a place for the history; no shell, no package, no library."""
    folders = ("etc", "tmp", "usr", "usr/local", "usr/local/bin", "usr/share", "usr/share/sbom", "var", "var/lib")
    made = [Entry(name, None, 0o1777 if name == "tmp" else 0o755) for name in folders]
    users = f"root:x:0:0:root:/:/sbin/nologin\nzombiescope:x:{NOBODY}:{NOBODY}:zombiescope:/:/sbin/nologin\n"
    return [
        *made,
        Entry(_STATE, None, 0o700, NOBODY),
        Entry("etc/passwd", users.encode(), 0o644),
        Entry("etc/group", f"root:x:0:\nzombiescope:x:{NOBODY}:\n".encode(), 0o644),
        Entry("usr/local/bin/zombiescope", program, 0o755),
        Entry("usr/share/sbom/zombiescope.cdx.json", bill, 0o644),
    ]


def settings() -> dict[str, Any]:
    """Nobody by default; a DaemonSet that wants the kernel's own view asks for user 0 and four capabilities by name."""
    return {
        "User": f"{NOBODY}:{NOBODY}",
        "Entrypoint": ["/usr/local/bin/zombiescope"],
        "Cmd": ["agent", "--listen", "0.0.0.0:9753", "--state", ""],
        "Env": ["PATH=/usr/local/bin", "LC_ALL=C.UTF-8"],
        "ExposedPorts": {"9753/tcp": {}},
        "WorkingDir": "/",
    }


def write_image(folder: Path, target: Path, architectures: list[str]) -> None:
    layout, images, bills = Layout(), [], []
    for architecture in architectures:
        program = folder / f"zombiescope-{architecture}"
        bill = program.with_name(f"{program.name}.cdx.json").read_bytes()
        _check(program, bill)
        name = ARCHITECTURES[architecture]
        image = layout.image(entries(program.read_bytes(), bill), settings(), name, labels())
        images.append(image)
        bills.append(layout.attached(image, BILL, bill, f"zombiescope-{architecture}.cdx.json"))
    _list(layout, images, bills)
    target.parent.mkdir(parents=True, exist_ok=True)
    layout.write(target)


def _list(layout: Layout, images: list[Descriptor], bills: list[Descriptor]) -> None:
    name = f"{NAME}:{own_version()}"
    layout.list_as(layout.index(images), name)
    for bill in bills:
        layout.list_as(bill)
    layout.for_docker(images[0], name)


def _check(program: Path, bill: bytes) -> None:
    """The bill is that of this very file."""
    told = json.loads(bill)["metadata"]["component"]["hashes"][0]["content"]
    if told != hashlib.sha256(program.read_bytes()).hexdigest():
        sys.exit(f"image: {program}.cdx.json is of another build (try: make onefile)")


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tools.image", description=__doc__)
    asked.add_argument("--out", type=Path, default=TOP / "dist" / "image" / "zombiescope-image.tar")
    asked.add_argument("--from", dest="folder", type=Path, default=TOP / "dist", help="where the one-file builds are")
    asked.add_argument("--arch", choices=list(ARCHITECTURES), action="append", help="default: both")
    given = asked.parse_args()
    architectures = given.arch or list(ARCHITECTURES)
    for architecture in architectures:
        if not (given.folder / f"zombiescope-{architecture}.cdx.json").exists():
            sys.exit(f"image: no {given.folder}/zombiescope-{architecture} (try: make onefile ARCH={architecture})")
    write_image(given.folder, given.out, architectures)
    digest = hashlib.sha256(given.out.read_bytes()).hexdigest()
    print(f"{given.out}: {given.out.stat().st_size:,} bytes, sha256 {digest}")


if __name__ == "__main__":
    main()
