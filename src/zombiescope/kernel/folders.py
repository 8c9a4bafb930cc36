# SPDX-License-Identifier: Apache-2.0
"""Names in folders that may change meanwhile: the files of one file system, and the open files of a process."""

from __future__ import annotations

import os
from collections.abc import Iterator


def files_below(top: bytes, device: str) -> Iterator[bytes]:
    """Regular files of that file system at and below a folder, by path; links are not followed, other mounts not entered."""
    pending = [top]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as entries:
                if device_of(folder) != device:
                    continue
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        yield entry.path
                    elif entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            if folder == top:
                raise


def device_of(path: bytes) -> str:
    number = os.stat(path, follow_symlinks=True).st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def open_files(process: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each open file of a process folder in /proc: the link, and the name the kernel gives it."""
    folder = process + b"/fd"
    for name in os.listdir(folder):
        link = folder + b"/" + name
        yield link, link_name(link)


def link_name(link: bytes) -> bytes:
    """The name behind a link; nothing where the link is gone."""
    try:
        return os.readlink(link)
    except OSError:
        return b""
