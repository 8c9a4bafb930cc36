# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes node's programs in the user's cache folder, built when missing: `python -m tests.kubernetes.build`.

Debian's source of Kubernetes 1.20 becomes one static program of four parts (hyper.py); etcd, containerd, runc and the
CNI plugins come from Debian as they are, kubectl from the next release. Each is kept under the hash of its recipe.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.kubernetes.hyper import GO, make_hyper
from tests.vm.archive import BuildError as ArchiveError
from tests.vm.archive import PrivateApt
from tools.onefile.steps import BuildError, Cache, Made, run

PROGRAM = Path(__file__).resolve().parents[2] / "dist/zombiescope-x86_64"
"""Our one file, as `make onefile-x86_64` leaves it."""
RUNTIME = ("etcd-server", "containerd", "runc", "containernetworking-plugins")
NEWER = ("kubectl",)
"""From the release after: bookworm's own kubectl is 1.20, without half of what the guides use."""


class Programs(NamedTuple):
    """What a node is started from."""

    hyper: Path
    """Its name decides which part it is: link it as kubelet, kube-apiserver and so on."""
    root: Path
    """Debian's packages, unpacked."""
    kubectl: Path


def cache() -> Cache:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Cache(base / "zombiescope" / "kubernetes")


def ensure() -> Programs:
    """Builds what is missing, and only that."""
    kept = cache()
    hyper = make_hyper(kept, lambda: _unpacked(kept, "go", "bookworm", GO))
    runtime = _unpacked(kept, "runtime", "bookworm", RUNTIME)
    kubectl = _unpacked(kept, "kubectl", "trixie", NEWER)
    kept.forget_unused()
    return Programs(hyper.folder / "hyper", runtime.folder / "root", kubectl.folder / "root/usr/bin/kubectl")


def _unpacked(kept: Cache, name: str, suite: str, packages: Sequence[str]) -> Made:
    def make(folder: Path) -> None:
        apt = PrivateApt(folder / "apt", [suite, f"{suite}-security"])
        apt.update()
        for package in packages:
            run(["dpkg", "-x", apt.download_one(package), folder / "root"], folder)
        shutil.rmtree(folder / "apt")

    return kept.step(name, [], [suite, *packages], make)


def main() -> None:
    try:
        programs = ensure()
    except (BuildError, ArchiveError) as error:
        sys.exit(f"kubernetes: {error}")
    print(f"{programs.hyper}: {programs.hyper.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
