# SPDX-License-Identifier: Apache-2.0
"""Pod names by uid, as far as the node can tell: the kubelet keeps logs in /var/log/pods/NAMESPACE_NAME_UID for a while."""

from __future__ import annotations

from zombiescope.facts.names import shown
from zombiescope.host.access import Host

_LOGS = b"/var/log/pods"


def read_pod_names(host: Host) -> dict[str, str]:
    """`uid -> namespace/name`; empty on a node without a kubelet. A pod whose logs are gone keeps only its uid."""
    try:
        folders = host.subdirectories(_LOGS)
    except OSError:
        return {}
    names = {}
    for folder in folders:
        namespace, _, rest = folder.partition(b"_")
        name, separator, uid = rest.rpartition(b"_")
        if separator and namespace and name and uid:
            names[shown(uid)] = f"{shown(namespace)}/{shown(name)}"
    return names
