# SPDX-License-Identifier: Apache-2.0
"""Folders the lab may use: its state, one on a tmpfs, one on a file system with a page cache.

Every root below holds one folder per run and nothing else, so `lab clean` finds a run by its name in each of them.
Files go into a folder of an existing tmpfs (/dev/shm): that is what real leaks do, and a mount of our own would be one
more thing a killed run leaves behind. /dev/shm and /var/tmp are folders everybody may write to: a root there is used only when it
is ours alone, and whatever is done in a root is done by descriptor (`host/own_folder.py`). The state lies where only root can
write.
"""

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from zombiescope.errors import ActionFailedError, ObservationError, UsageError, ZombiescopeError
from zombiescope.host.own_folder import own_folder, own_folder_in
from zombiescope.host.safe_paths import make_folder

LAB = "zombiescope-lab"
"""Name of the lab's cgroup, of its folders, and of its processes (15 characters: the most a process name can have)."""
SYSV_KEY_BASE, SYSV_KEY_COUNT = 0x7A6C0000, 0x10000
SYSV_MARK = b"zombiescope-lab "
_RUN = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


def new_run_name() -> str:
    return f"r{secrets.token_hex(4)}"


def checked_run_name(name: str) -> str:
    if not _RUN.fullmatch(name):
        raise UsageError(
            f"cannot name a lab run {name!r}",
            "a name is 1 to 40 lower-case letters, digits and hyphens, and does not begin with a hyphen",
            "--name mytest",
        )
    return name


def is_run_name(name: str) -> bool:
    return _RUN.fullmatch(name) is not None


_MEANINGS = {
    errno.EAGAIN: ("a limit on the number or depth of cgroups is reached (cgroup.max.descendants, cgroup.max.depth)",
                   "raise cgroup.max.descendants in the parent, or make fewer: --count"),
    errno.ENOSPC: ("no space, no inodes, or no free memory cgroup id (65,535 at most)",
                   "df -h /dev/shm /var/lib; df -i /dev/shm; or make fewer: --count"),
    errno.EBUSY: ("the kernel has no free memory cgroup id, or the cgroup is in use", "zombiescope lab clean"),
    errno.ENOMEM: ("the kernel has no memory for another cgroup", "make fewer: --count"),
    errno.EMFILE: ("too many open files in one process", "make fewer: --count, or raise the limit: ulimit -n"),
    errno.ENFILE: ("too many open files on this host", "make fewer: --count"),
    errno.EACCES: ("permission denied", "run as root"),
    errno.EPERM: ("not permitted", "run as root, outside a restricted container"),
    errno.EROFS: ("the file system is read-only", "run on the host, or mount it writable"),
}  # fmt: skip


def refusal(what: str, error: OSError, *, undone: bool = False) -> ZombiescopeError:
    """An OSError as an error a person can act on."""
    fallback = os.strerror(error.errno) if error.errno else str(error)
    why, hint = _MEANINGS.get(error.errno or 0, (fallback, "zombiescope lab clean"))
    return (ObservationError if undone else ActionFailedError)(what, why, hint)


def text_of(path: str) -> str:
    """What a file of the kernel says; empty where it cannot be read."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def has_swap() -> bool:
    return len(text_of("/proc/swaps").splitlines()) > 1


def require_root() -> None:
    if os.geteuid() != 0:
        raise ObservationError(
            "cannot use the lab", "making and removing cgroups needs root", "run the same command with sudo"
        )


STATE_ROOTS = ("/var/lib/zombiescope/lab", "/run/zombiescope/lab")
TMPFS_ROOTS = (f"/dev/shm/{LAB}", "/run/zombiescope/lab")
DISK_ROOTS = ("/var/lib/zombiescope/lab", f"/var/tmp/{LAB}")
FORMER_ROOTS = (f"/tmp/{LAB}",)
"""Where earlier versions put things; nothing new goes there, and `lab clean` still finds what is ours."""
ROOTS = tuple(dict.fromkeys((*STATE_ROOTS, *TMPFS_ROOTS, *DISK_ROOTS, *FORMER_ROOTS)))
TMPFS, DISK = "tmpfs", "pages"
_WANTED = {TMPFS: "a tmpfs", DISK: "a file system with a page cache"}
_NO_PAGE_CACHE = {"tmpfs", "ramfs", "devtmpfs", "rootfs", "hugetlbfs"}


def filesystem_of(path: str, mountinfo: str | None = None) -> str:
    """Type of the file system that `path`, or what exists of it, lies on. The last mount on a point covers the others."""
    text = Path("/proc/self/mountinfo").read_text(errors="surrogateescape") if mountinfo is None else mountinfo
    best = kind = ""
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        point = fields[4].rstrip("/") if len(fields) > 4 else None
        if point is not None and f"{path}/".startswith(f"{point}/") and len(point) >= len(best):
            best, kind = point, right.split(" ")[0]
    return kind


_TRIES = 100


def make_private(folder: str) -> None:
    """Makes the folder and its parents. One that is there must be ours alone: nobody else may plant links in it."""
    try:
        _make_in(folder, lambda _: None)
    except (PermissionError, NotADirectoryError) as error:
        raise ActionFailedError(
            f"cannot use the folder {folder}", str(error.strerror), f"look at it, then remove it: ls -ld {folder}"
        ) from error


def why_foreign(folder: str) -> str:
    """Why a folder of that name is not ours; empty when it is. Raises FileNotFoundError when there is none."""
    try:
        with own_folder(folder):
            return ""
    except FileNotFoundError:
        raise
    except OSError as error:
        return str(error.strerror)


@contextmanager
def own_run(root: str, run: str) -> Iterator[int]:
    """The run's folder under a root, both ours alone; raises OSError with the reason when there is none such."""
    with own_folder(root) as top, own_folder_in(top, run) as folder:
        yield folder


def state_folder(run: str) -> str:
    """A new folder for the run's journal, in the first root that can be written."""
    reasons = []
    for root in STATE_ROOTS:
        try:
            _make_in(root, lambda top: os.mkdir(run, 0o700, dir_fd=top))
        except FileExistsError:
            raise ActionFailedError(
                f"cannot start the lab run {run}",
                "a run of that name is there already",
                f"zombiescope lab clean --name {run}",
            ) from None
        except OSError as error:
            reasons.append(f"{root}: {error.strerror}")
            continue
        return f"{root}/{run}"
    raise ActionFailedError(
        "cannot keep a journal of the lab run", "; ".join(reasons), "make one of these folders writable"
    )


def tmpfs_folder(run: str) -> str:
    return _choose(run, TMPFS_ROOTS, TMPFS, lambda kind: kind == "tmpfs")


def disk_folder(run: str) -> str:
    return _choose(run, DISK_ROOTS, DISK, lambda kind: kind not in _NO_PAGE_CACHE)


def _choose(run: str, roots: tuple[str, ...], purpose: str, fits: Callable[[str], bool]) -> str:
    """The first that fits and that nobody else has taken."""
    reasons = []
    for root in roots:
        misfit = "" if fits(filesystem_of(root)) else f"not on {_WANTED[purpose]}"
        reason = misfit or (why_foreign(root) if os.path.lexists(root) else "")
        if not reason:
            return f"{root}/{run}/{purpose}"
        reasons.append(f"{root}: {reason}")
    raise ObservationError(
        f"cannot find {_WANTED[purpose]} for the lab's files", "; ".join(reasons), "mount one there, or clear the way"
    )


def make_run_folder(folder: str) -> None:
    run_folder, purpose = os.path.split(folder)
    root, run = os.path.split(run_folder)

    def make(top: int) -> None:
        make_folder(top, run)
        with own_folder_in(top, run) as mine:
            os.mkdir(purpose, 0o700, dir_fd=mine)

    _make_in(root, make)


def _make_in(root: str, make: Callable[[int], None]) -> None:
    """In a root of ours, made where it is missing: the last run of others that ends takes an empty one away, at any moment."""
    for left in reversed(range(_TRIES)):
        try:
            with own_folder(root, make=True) as top:
                make(top)
            return
        except FileNotFoundError:
            if not left:
                raise


def runs_in_folders() -> set[str]:
    found: set[str] = set()
    for root in ROOTS:
        with suppress(OSError), own_folder(root) as top:
            found.update(filter(is_run_name, os.listdir(top)))
    return found


def pin_folders(run: str) -> Iterator[int]:
    """Folders with the files that pin, wherever they are, open until the next is asked for; no journal is needed to find them."""
    for root, purpose in product(ROOTS, (TMPFS, DISK)):
        with ExitStack() as opened:
            try:
                folder = opened.enter_context(own_folder_in(opened.enter_context(own_run(root, run)), purpose))
            except OSError:
                continue
            yield folder


def remove_run_folders(run: str) -> tuple[int, list[tuple[str, str]]]:
    """Removes the run's folder under every root. Returns how many files went, and (path, why) of what could not go."""
    files = 0
    left: list[tuple[str, str]] = []
    for root in ROOTS:
        try:
            with own_folder(root) as top:
                with own_folder_in(top, run) as folder:
                    files += sum(len(names) for _, _, names, _ in os.fwalk(".", dir_fd=folder))
                shutil.rmtree(run, dir_fd=top, onerror=partial(_note, left, root))
        except FileNotFoundError:
            continue
        except OSError as error:
            if os.path.lexists(f"{root}/{run}"):
                left.append((f"{root}/{run}", str(error.strerror)))
    return files, left


def _note(left: list[tuple[str, str]], root: str, _call: object, path: str, info: Any) -> None:
    left.append((f"{root}/{path}", str(info[1])))


def remove_empty_roots() -> None:
    ours = (root for root in ROOTS if os.path.lexists(root) and not why_foreign(root))
    for folder in (*ours, "/var/lib/zombiescope", "/run/zombiescope"):
        with suppress(OSError):
            os.rmdir(folder)
