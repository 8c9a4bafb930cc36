# SPDX-License-Identifier: Apache-2.0
"""Which kind of machine stands behind `--root`: a recording, a live host when its `/proc` is a mounted proc, else a folder."""

from __future__ import annotations

import os
import stat

from zombiescope.errors import UsageError
from zombiescope.facts.names import shown
from zombiescope.host.access import Host
from zombiescope.host.live import LiveHost
from zombiescope.host.tree import TreeHost


def choose_host(root: bytes | None) -> Host:
    if root is None or os.path.realpath(root) == b"/":
        return LiveHost()
    if os.path.isfile(root):
        return _recording(root)
    why = _why_no_folder(root)
    if why:
        raise UsageError(f"cannot use {shown(root)} as a root", why, "give the folder of a recorded or mounted host")
    place = os.path.realpath(root)
    if os.path.lexists(os.path.join(place, b"recording.jsonl")):
        return _recording(root)
    return LiveHost(place) if _holds_a_live_proc(place) else TreeHost(place)


def _recording(place: bytes) -> Host:
    from zombiescope.host.bundle import open_bundle  # noqa: PLC0415 (a look at the live host does not pay for it)

    return open_bundle(place)


def _why_no_folder(root: bytes) -> str:
    try:
        status = os.stat(root)
    except FileNotFoundError:
        return "there is no such folder"
    except OSError as error:
        return (error.strerror or "it cannot be looked at").lower()
    return "" if stat.S_ISDIR(status.st_mode) else "it is not a folder"


def _holds_a_live_proc(root: bytes) -> bool:
    proc = os.path.join(root, b"proc")
    for character in b"\\ \t\n":
        proc = proc.replace(bytes([character]), b"\\%03o" % character)
    try:
        with open("/proc/self/mountinfo", "rb") as mounts:
            lines = mounts.read().split(b"\n")
    except OSError:
        return False  # without a mount table nothing says that it is live
    halves = [line.partition(b" - ") for line in lines]
    return any(after.startswith(b"proc ") and before.split(b" ")[4] == proc for before, _, after in halves)
