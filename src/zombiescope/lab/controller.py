# SPDX-License-Identifier: Apache-2.0
"""v2: the memory controller at the root of the hierarchy, which belongs to everybody.

Where the root does not hand memory down, the lab turns that on, says so in a note of its own first, and turns it off again once
its last run is gone. The note outlives the run that wrote it: another run may stand on what the first one turned on.
It stays on, with the reason, when somebody else has come to use it meanwhile: taken away, their limits would be lost, and
what was charged to them would be left as zombies.
"""

from __future__ import annotations

import os
from pathlib import Path

from zombiescope.errors import ActionFailedError
from zombiescope.lab.hierarchy import MemoryHierarchy, write_file
from zombiescope.lab.names import LAB, refusal
from zombiescope.lab.places import STATE_ROOTS, make_private, why_foreign
from zombiescope.lab.processes import boot_id

NOTE = ".memory-handed-down"
_UNUSED = {
    "memory.current": ("0",),
    "memory.max": ("max",),
    "memory.high": ("max",),
    "memory.min": ("0",),
    "memory.low": ("0",),
}
_CONTROL = "cgroup.subtree_control"


def hand_down(hierarchy: MemoryHierarchy) -> None:
    """Turns memory on below the root if it is off, after the note is on disk."""
    if not hierarchy.is_unified or _is_handed_down(hierarchy, "/"):
        return
    _write_note()
    try:
        write_file(hierarchy.file("/", _CONTROL), b"+memory")
    except OSError as error:
        _forget()
        control = hierarchy.file("/", _CONTROL)
        raise refusal(f"cannot enable the memory controller below / ({control})", error) from error


def take_back(hierarchy: MemoryHierarchy) -> str:
    """Turns off what `hand_down` turned on. Empty, or why it stays on; then the note stays as well, and the next
    cleaning tries again."""
    if not _is_noted():
        return ""
    if _is_handed_down(hierarchy, "/"):
        reason = _used_by_others(hierarchy) or _turn_off(hierarchy)
        if reason:
            return reason
    _forget()
    return ""


def _turn_off(hierarchy: MemoryHierarchy) -> str:
    try:
        write_file(hierarchy.file("/", _CONTROL), b"-memory")
    except OSError as error:
        return f"the kernel keeps the memory controller on below /: {error.strerror}"
    return ""


def _used_by_others(hierarchy: MemoryHierarchy) -> str:
    """Why somebody else's cgroups need the controller by now; empty when they do not."""
    for name in hierarchy.children("/"):
        path = f"/{name}"
        if name != LAB and (_is_handed_down(hierarchy, path) or not _is_unused(hierarchy, path)):
            return f"the memory controller stays on below /: {path} has come to use it since the lab turned it on"
    return ""


def _is_unused(hierarchy: MemoryHierarchy, path: str) -> bool:
    """Nothing charged and nothing limited; what cannot be read counts as used, unless the whole cgroup is gone."""
    for name, values in _UNUSED.items():
        try:
            if Path(hierarchy.file(path, name)).read_text().strip() not in values:
                return False
        except OSError:
            return not hierarchy.exists(path)
    return True


def _is_handed_down(hierarchy: MemoryHierarchy, path: str) -> bool:
    try:
        return "memory" in Path(hierarchy.file(path, _CONTROL)).read_text().split()
    except OSError:
        return False


def _write_note() -> None:
    """In the first place that can be written; of this boot alone, for no cgroup outlives its kernel."""
    reasons = []
    for root in STATE_ROOTS:
        try:
            make_private(root)
            descriptor = os.open(f"{root}/{NOTE}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        except (OSError, ActionFailedError) as error:
            reasons.append(f"{root}: {error}")
            continue
        try:
            os.write(descriptor, boot_id().encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return
    what = "cannot note that the lab turns the memory controller on"
    raise ActionFailedError(what, "; ".join(reasons), "make one of these folders writable")


def _is_noted() -> bool:
    for root in STATE_ROOTS:
        try:
            if not why_foreign(root) and Path(root, NOTE).read_text() == boot_id():
                return True
        except OSError:
            continue
    return False


def _forget() -> None:
    for root in STATE_ROOTS:
        if os.path.lexists(root) and not why_foreign(root):
            Path(root, NOTE).unlink(missing_ok=True)
