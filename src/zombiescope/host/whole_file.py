# SPDX-License-Identifier: Apache-2.0
"""A file that appears whole or not at all, and never through a link: written beside, under a name that nobody can foresee and that
must be new, then given its name. What stood there under that name is replaced as a name, or stays where that was not asked for.

`writes.py` and `history/log.py` write beside under names that are known, so that what a kill left is found again.
"""

import os
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress

from zombiescope.host.safe_paths import CAREFUL, descriptor_of, folder_at

BESIDE = re.compile(rb"\.zombiescope-[0-9a-f]{16}")
"""The name while it is written: of one that nobody has open any more, its writer was killed."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_whole(path: bytes | str, pieces: Iterable[bytes], *, replace: bool = True, make: int | None = None) -> None:
    """Its owner's alone (0600), in a folder that somebody named. Raises OSError, FileExistsError among them.

    `make`: folders that are not there are made, with this mode."""
    where, name = os.path.split(os.fsencode(path))
    with named_folder(where, make) as folder:
        write_whole_in(folder, name, pieces, replace=replace)


def named_folder(path: bytes, make: int | None = None) -> AbstractContextManager[int]:
    """A folder that somebody named, as a descriptor: no stranger's link or folder on the way leads to what is not theirs."""
    return folder_at(b"", os.path.join(os.getcwdb(), path), CAREFUL._replace(make=make))


def write_whole_in(
    folder: int,
    name: bytes | str,
    pieces: Iterable[bytes],
    *,
    mode: int = 0o600,
    replace: bool = True,
    sync: bool = True,
) -> None:
    """`mode` is given at the end, whatever the umask. Without `sync` a crash of the machine may leave an empty file."""
    beside = f".zombiescope-{os.urandom(8).hex()}"
    with os.fdopen(os.open(beside, _NEW, 0o600, dir_fd=folder), "wb") as file:
        try:
            file.writelines(pieces)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if sync:
                os.fsync(file.fileno())
            _give_name(folder, beside, name, replace=replace)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside, dir_fd=folder)
            raise


def _give_name(folder: int, beside: str, name: bytes | str, *, replace: bool) -> None:
    if replace:
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    # A link fails where the name is taken, also by one who took it a moment ago; a rename would not.
    os.link(beside, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    os.unlink(beside, dir_fd=folder)


def write_all(descriptor: int, content: bytes | memoryview) -> None:
    """A pipe, and a disk that fills up, take a part first."""
    while content:
        content = content[os.write(descriptor, content) :]


def sync_folder(folder: bytes | str) -> None:
    """The names in it are on the disk, too."""
    with descriptor_of(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as descriptor:
        os.fsync(descriptor)
