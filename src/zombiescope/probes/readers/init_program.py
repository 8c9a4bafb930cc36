# SPDX-License-Identifier: Apache-2.0
"""`/sbin/init` of a tree: does another program than systemd run first?"""

from __future__ import annotations

from zombiescope.facts.names import shown
from zombiescope.host.files import Files, Kind

_INIT = b"/sbin/init"
_SYSTEMD = (b"/usr/lib/systemd/systemd", b"/lib/systemd/systemd")
_LINKS_FOLLOWED = 8


def read_other_init(files: Files) -> str:
    """The program's name; empty for systemd, and where nothing tells: an image may keep its init elsewhere."""
    path, is_link = _INIT, False
    for _ in range(_LINKS_FOLLOWED):
        entry = files.entry(path)
        if entry is None or entry.kind is not Kind.LINK:
            break
        is_link = True
        path = entry.target if entry.target.startswith(b"/") else path.rpartition(b"/")[0] + b"/" + entry.target
    name = path.rpartition(b"/")[2]
    if is_link:
        return "" if name == b"systemd" else shown(name)
    is_older = files.exists(b"/etc/inittab") and files.exists(_INIT) and not any(map(files.exists, _SYSTEMD))
    return "init of /etc/inittab" if is_older else ""
