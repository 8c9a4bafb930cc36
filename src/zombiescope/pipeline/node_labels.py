# SPDX-License-Identifier: Apache-2.0
"""What this machine is called, and which kind it is: name, zone, image and kernel, as far as it tells itself."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.host.live import LiveHost
from zombiescope.probes.readers.node import read_identity, read_node_image, read_node_zone


class NodeLabels(NamedTuple):
    """Empty where nothing tells."""

    node: str
    zone: str
    image: str
    kernel: str


def labels_here() -> NodeLabels:
    host = LiveHost()
    identity = read_identity(host)
    return NodeLabels(identity.name or "", read_node_zone(host), read_node_image(host), identity.kernel or "")
