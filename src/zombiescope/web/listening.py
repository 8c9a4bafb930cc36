# SPDX-License-Identifier: Apache-2.0
"""The socket that a server listens on: an address and port, or a name in the file system that only its owner can open."""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress

from zombiescope.host.own_folder import guarded_folder

_WAITING = 512
_KIND = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC


def open_listening(where: tuple[str, int] | str) -> socket.socket:
    """A pair is an address and a port, a text a path. Raises OSError."""
    if isinstance(where, str):
        return _on_a_path(where)
    family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
    listening = socket.socket(family, _KIND)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(_WAITING)
    except OSError:
        listening.close()
        raise
    return listening


def _on_a_path(path: str) -> socket.socket:
    """Bound through the folder's descriptor: nobody can swap what lies on the way, and a long way fits too."""
    where, name = os.path.split(path)
    with guarded_folder(where) as folder:
        listening = socket.socket(socket.AF_UNIX, _KIND)
        try:
            place = f"/proc/self/fd/{folder}/{name}"
            _remove_a_dead_one(folder, name, place)
            before = os.umask(0o177)
            try:
                listening.bind(place)
            finally:
                os.umask(before)
            listening.listen(_WAITING)
        except OSError:
            listening.close()
            raise
    return listening


def _remove_a_dead_one(folder: int, name: str, place: str) -> None:
    """A socket of ours that nobody listens on any more: a killed agent cannot take it away."""
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid not in (0, os.geteuid()):
            raise FileExistsError(errno.EEXIST, "something else has that name")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as asking:
            if asking.connect_ex(place) != errno.ECONNREFUSED:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        os.unlink(name, dir_fd=folder)


def remove_path(path: str) -> None:
    """At the end, when ours is closed and if nobody else listens under that name by now."""
    where, name = os.path.split(path)
    with suppress(OSError), guarded_folder(where) as folder:
        _remove_a_dead_one(folder, name, f"/proc/self/fd/{folder}/{name}")
