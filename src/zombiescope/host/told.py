# SPDX-License-Identifier: Apache-2.0
"""A host whose names somebody told us: its cluster, which no file of a node holds, and its own, which /proc cannot say to a pod:
`/proc/sys/kernel/hostname` answers with the name of whoever reads it, whosever /proc it is."""

from __future__ import annotations

from zombiescope.facts.names import raw, shown_text
from zombiescope.host.access import READ_LIMIT_BYTES, Host, beside_recording
from zombiescope.host.live import LiveHost

_HOSTNAME = b"/proc/sys/kernel/hostname"
_LONGEST = 253


class ToldHost(LiveHost):
    def __init__(self, root: bytes, node: str = "", cluster: str = "") -> None:
        """`node`: counts only for a host that is mounted elsewhere; this one knows its own name."""
        super().__init__(root or b"/")
        self._name = raw(node) + b"\n" if node and self.root else b""
        self.cluster = shown_text(cluster)[:_LONGEST]

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        return self._name if self._name and path == _HOSTNAME else super().read(path, limit)


def told(host: Host, node: str, cluster: str) -> Host:
    """The same host, with these names. A recording and a folder keep those that they have."""
    if type(host) is not LiveHost or not (cluster or (node and host.root)):
        return host
    return ToldHost(host.root, node, cluster)


def cluster_of(host: Host) -> str:
    """Empty where nobody told. A recording does not keep it: it is a name of somebody's."""
    beneath = beside_recording(host)
    return beneath.cluster if isinstance(beneath, ToldHost) else ""
