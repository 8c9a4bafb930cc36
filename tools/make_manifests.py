# SPDX-License-Identifier: Apache-2.0
"""`python tools/make_manifests.py [FOLDER]`: what a cluster's operator takes of a release, in dist/manifests; same bytes each time.

The Kustomize tree, the Helm chart, and the kubectl plugin with its krew manifest.
"""

from __future__ import annotations

import gzip
import hashlib
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP))

from tools.image.oci import Entry, packed  # noqa: E402 (run as a script)
from tools.onefile.packing import own_version  # noqa: E402


def _entries(folder: Path, name: str) -> list[Entry]:
    """All below a folder, under another name."""
    found: list[Entry] = [Entry(name, None, 0o755)]
    for path in sorted(folder.rglob("*")):
        inner = f"{name}/{path.relative_to(folder)}"
        found.append(Entry(inner, None, 0o755) if path.is_dir() else _file(path, inner))
    return found


def _file(path: Path, name: str) -> Entry:
    return Entry(name, path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)


def _write(target: Path, entries: list[Entry]) -> None:
    target.write_bytes(gzip.compress(packed(entries), 9, mtime=0))


def make_manifests(out: Path) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    deploy, version = TOP / "deploy", own_version()
    licence = _file(TOP / "LICENSE", "LICENSE")
    tree, chart = out / "zombiescope-kubernetes.tar.gz", out / f"zombiescope-{version}.tgz"
    plugin, manifest = out / "kubectl-zombiescope.tar.gz", out / "zombiescope.yaml"
    _write(tree, _entries(deploy / "kubernetes", "zombiescope-kubernetes"))
    _write(chart, _entries(deploy / "helm/zombiescope", "zombiescope"))
    _write(plugin, [_file(deploy / "kubectl/kubectl-zombiescope", "kubectl-zombiescope"), licence])
    digest = hashlib.sha256(plugin.read_bytes()).hexdigest()
    told = (deploy / "kubectl/zombiescope.yaml").read_text(encoding="utf-8")
    manifest.write_text(told.replace("VERSION", f"v{version}").replace("SHA256", digest), encoding="utf-8")
    return [tree, chart, plugin, manifest]


if __name__ == "__main__":
    for path in make_manifests(Path(sys.argv[1]) if len(sys.argv) > 1 else TOP / "dist/manifests"):
        print(f"{path}: {path.stat().st_size:,} bytes")
