# SPDX-License-Identifier: Apache-2.0
"""Which kind of machine stands behind `--root`: a live host when its `/proc` is a mounted proc, else a folder."""

from __future__ import annotations

import os

from zombiescope.errors import UsageError
from zombiescope.facts.names import shown
from zombiescope.host.access import Host
from zombiescope.host.live import LiveHost
from zombiescope.host.tree import TreeHost


def choose_host(root: bytes | None) -> Host:
    if root is None or os.path.realpath(root) == b"/":
        return LiveHost()
    if not os.path.isdir(root):
        why = "it is not a folder" if os.path.exists(root) else "there is no such folder"
        raise UsageError(f"cannot use {shown(root)} as a root", why, "give the folder of a recorded or mounted host")
    place = os.path.realpath(root)
    return LiveHost(place) if _holds_a_live_proc(place) else TreeHost(place)


def _holds_a_live_proc(root: bytes) -> bool:
    proc = os.path.join(root, b"proc")
    with open("/proc/self/mountinfo", "rb") as mounts:
        for line in mounts:
            before, _, after = line.partition(b" - ")
            if after.startswith(b"proc ") and before.split()[4] == proc.replace(b" ", b"\\040"):
                return True
    return False
