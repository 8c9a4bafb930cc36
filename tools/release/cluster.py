# SPDX-License-Identifier: Apache-2.0
"""The container image, from the very one files of the release, and the Kubernetes manifests, chart and kubectl plugin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools.image.__main__ import write_image
from tools.make_manifests import make_manifests

IMAGE = "zombiescope-image.tar"


def make_cluster_files(out: Path, architectures: Sequence[str]) -> list[Path]:
    write_image(out, out / IMAGE, list(architectures))
    return [out / IMAGE, *make_manifests(out)]
