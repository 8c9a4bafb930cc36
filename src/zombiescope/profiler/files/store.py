# SPDX-License-Identifier: Apache-2.0
"""Stored captures in a folder: written whole or not at all, listed, found by name."""

import contextlib
import os
import stat
from collections.abc import Iterable

from zombiescope.errors import ObservationError, UsageError, reason_of
from zombiescope.facts.names import shown
from zombiescope.host.whole_file import write_whole
from zombiescope.profiler.stacks.about import BrokenCapture, Stored

SUFFIX = b".zscap"
LATEST = "latest"


def save(folder: bytes, name: bytes, pieces: Iterable[bytes]) -> bytes:
    """Written beside, synced, then renamed: a crash leaves the old file or the new one, never half of one."""
    path = os.path.join(folder, name + SUFFIX)
    try:
        write_whole(path, pieces, make=0o700)
    except OSError as error:
        raise ObservationError(
            f"cannot store the capture ({shown(path)})", reason_of(error), "make room there, or choose another folder"
        ) from error
    return path


def entries(folder: bytes) -> list[Stored]:
    """Newest last. A folder that is not there holds none."""
    found = []
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ObservationError(
            f"cannot list the captures ({shown(folder)})", reason_of(error), "choose a folder with --captures"
        ) from error
    for name in names:
        if name.endswith(SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                found.append(_entry(os.path.join(folder, name), name))
    return sorted(found, key=lambda entry: (entry.written_at, entry.path))


def _entry(path: bytes, name: bytes) -> Stored:
    from zombiescope.profiler.files.symbol_files import map_file  # noqa: PLC0415 (to store one needs no reader)
    from zombiescope.profiler.formats.capture_file import read_about  # noqa: PLC0415

    seen = os.stat(path)
    about = None
    with contextlib.suppress(OSError, BrokenCapture):
        about = read_about(map_file(path))
    return Stored(path, shown(name[: -len(SUFFIX)]), seen.st_size, seen.st_mtime, about)


def find(folder: bytes, name: str) -> bytes:
    """The file meant by a path, by a name in the folder, or by `latest`."""
    given = os.fsencode(name)
    if name != LATEST and os.path.exists(given):
        if not stat.S_ISREG(os.stat(given).st_mode):
            raise UsageError(f"cannot read {name!r} as a capture", "it is not a regular file", "give a file")
        return given
    stored = entries(folder)
    meant = [entry.path for entry in stored if name in (LATEST, entry.name)]
    if meant:
        return meant[-1]
    known = ", ".join(entry.name for entry in stored[-5:]) or "none"
    raise UsageError(
        f"there is no capture {name!r}",
        f"no such file, and none of that name in {shown(folder)} (there: {known})",
        "zombiescope profile list, or zombiescope profile import FILE",
    )
