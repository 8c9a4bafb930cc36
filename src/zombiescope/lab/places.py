# SPDX-License-Identifier: Apache-2.0
"""Folders the lab may use: its state, one on a tmpfs, one on a file system with a page cache.

Every root below holds one folder per run and nothing else, so `lab clean` finds a run by its name in each of them.
Files go into a folder of an existing tmpfs (/dev/shm): that is what real leaks do, and a mount of our own would be one
more thing a killed run leaves behind. Some roots lie in folders everybody may write to: only a folder of ours is trusted.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from zombiescope.errors import ActionFailedError, ObservationError
from zombiescope.lab.names import LAB, is_run_name

STATE_ROOTS = ("/var/lib/zombiescope/lab", "/run/zombiescope/lab", f"/tmp/{LAB}")
TMPFS_ROOTS = (f"/dev/shm/{LAB}", "/run/zombiescope/lab", f"/tmp/{LAB}")
DISK_ROOTS = ("/var/lib/zombiescope/lab", f"/var/tmp/{LAB}", f"/tmp/{LAB}")
ROOTS = tuple(dict.fromkeys((*STATE_ROOTS, *TMPFS_ROOTS, *DISK_ROOTS)))
TMPFS, DISK = "tmpfs", "pages"
_NO_PAGE_CACHE = {"tmpfs", "ramfs", "devtmpfs", "rootfs", "hugetlbfs"}


def filesystem_of(path: str, mountinfo: str | None = None) -> str:
    """Type of the file system that `path`, or what exists of it, lies on. The last mount on a point covers the others."""
    text = Path("/proc/self/mountinfo").read_text(errors="surrogateescape") if mountinfo is None else mountinfo
    best, kind = "", ""
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5:
            continue
        point = fields[4].rstrip("/")
        if (path == point or path.startswith(point + "/")) and len(point) >= len(best):
            best, kind = point, right.split(" ")[0]
    return kind


def make_private(folder: str) -> None:
    """Makes the folder and its parents. One that is there must be ours alone: nobody else may plant links in it."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        reason = why_foreign(folder)
        if reason:
            raise ActionFailedError(
                f"cannot use the folder {folder}", reason, f"look at it, then remove it: ls -ld {folder}"
            ) from None


def why_foreign(folder: str) -> str:
    """Why a folder of that name is not ours; empty when it is."""
    facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode):
        return "it is not a folder"
    if facts.st_uid != os.geteuid():
        return f"it belongs to user {facts.st_uid}"
    if facts.st_mode & 0o022:
        return "others may write to it"
    return ""


def state_folder(run: str) -> str:
    """A new folder for the run's journal, in the first root that can be written."""
    reasons = []
    for root in STATE_ROOTS:
        try:
            make_private(root)
            os.mkdir(f"{root}/{run}", 0o700)
        except FileExistsError:
            raise ActionFailedError(
                f"cannot start the lab run {run}",
                "a run of that name is there already",
                f"zombiescope lab clean --name {run}",
            ) from None
        except (OSError, ActionFailedError) as error:
            reasons.append(f"{root}: {error}")
            continue
        return f"{root}/{run}"
    raise ActionFailedError(
        "cannot keep a journal of the lab run", "; ".join(reasons), "make one of these folders writable"
    )


def tmpfs_folder(run: str) -> str:
    return _choose(run, TMPFS_ROOTS, TMPFS, lambda kind: kind == "tmpfs")


def disk_folder(run: str) -> str:
    return _choose(run, DISK_ROOTS, DISK, lambda kind: kind not in _NO_PAGE_CACHE)


def _choose(run: str, roots: tuple[str, ...], purpose: str, fits: object) -> str:
    assert callable(fits)
    for root in roots:
        if fits(filesystem_of(root)):
            return f"{root}/{run}/{purpose}"
    wanted = "a tmpfs" if purpose == TMPFS else "a file system with a page cache"
    raise ObservationError(
        f"cannot find {wanted} for the lab's files", f"none of {', '.join(roots)} lies on one", "mount one there"
    )


def make_run_folder(folder: str) -> None:
    run_folder = os.path.dirname(folder)
    make_private(os.path.dirname(run_folder))
    os.makedirs(run_folder, 0o700, exist_ok=True)
    os.mkdir(folder, 0o700)


def runs_in_folders() -> set[str]:
    found: set[str] = set()
    for root in ROOTS:
        if os.path.isdir(root) and not why_foreign(root):
            found.update(name for name in os.listdir(root) if is_run_name(name))
    return found


def pin_folders(run: str) -> list[str]:
    """Folders with the files that pin, wherever they are; a journal is not needed to find them."""
    candidates = [(root, f"{root}/{run}/{purpose}") for root in ROOTS for purpose in (TMPFS, DISK)]
    return [
        folder
        for root, folder in candidates
        if os.path.isdir(folder) and not any(map(why_foreign, (root, os.path.dirname(folder), folder)))
    ]


def remove_run_folders(run: str) -> tuple[int, list[tuple[str, str]]]:
    """Removes the run's folder under every root. Returns how many files went, and (path, why) of what could not go."""
    files = 0
    left: list[tuple[str, str]] = []
    for root in ROOTS:
        folder = f"{root}/{run}"
        if not os.path.lexists(folder):
            continue
        reason = why_foreign(root) or why_foreign(folder)
        if reason:
            left.append((folder, reason))
            continue
        files += sum(len(names) for _, _, names in os.walk(folder))
        shutil.rmtree(folder, onerror=lambda _call, path, info: left.append((str(path), str(info[1]))))
    return files, left


def remove_empty_roots() -> None:
    for root in ROOTS:
        if os.path.isdir(root) and not why_foreign(root):
            _remove_if_empty(root)
    for parent in ("/var/lib/zombiescope", "/run/zombiescope"):
        _remove_if_empty(parent)


def _remove_if_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        return
