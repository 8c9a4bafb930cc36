# SPDX-License-Identifier: Apache-2.0
"""The two places that an agent needs, tried without leaving anything there: its state folder and its address."""

from __future__ import annotations

import errno
import os
import socket
from importlib.util import find_spec

from zombiescope.config import listen_address
from zombiescope.errors import UsageError
from zombiescope.facts.gap import Gap
from zombiescope.host.own_folder import STATE, own_folder

_ROOT_FOLDER = "run as root, or choose another folder: zombiescope agent --state DIR"


def try_history(folder: str) -> str | Gap:
    """Whether history could be kept there; a folder that is missing is not made, only the way to it is looked at."""
    if not folder:
        return Gap("", "no state folder is configured", "zombiescope agent --state DIR")
    try:
        with own_folder(folder + "/.", STATE) as opened:
            if os.access(".", os.W_OK | os.X_OK, dir_fd=opened, effective_ids=True):
                return "the folder can be written"
            return Gap("", f"{folder} may not be written", _ROOT_FOLDER)
    except FileNotFoundError:
        return _could_be_made(folder)
    except OSError as error:
        return Gap("", f"{folder}: {(error.strerror or str(error)).lower()}", _ROOT_FOLDER)


def _could_be_made(folder: str) -> str | Gap:
    above = os.path.abspath(folder)
    while not os.path.isdir(above) and above != "/":
        above = os.path.dirname(above)
    if os.access(above, os.W_OK | os.X_OK, effective_ids=True) and not _is_read_only(above):
        return f"an agent would make the folder, in {above}"
    return Gap("", f"{folder} does not exist, and {above} may not be written", _ROOT_FOLDER)


def _is_read_only(folder: str) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def try_agent(listen: str) -> str | Gap | tuple[str, Gap]:
    """The packages that serve, and whether the address is free at this moment."""
    for package in ("prometheus_client", "h11"):
        if find_spec(package) is None:
            return Gap("", f"{package} is not installed", "pip install 'zombiescope[agent]'")
    try:
        where = listen_address(listen)
    except UsageError as error:
        return Gap("", error.why, error.hint)
    if where is None:
        return Gap("", "no address is configured", "zombiescope agent --listen 127.0.0.1:9753")
    if isinstance(where, str):
        return "a socket in the file system"
    family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(where)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                why = f"{listen} is in use at this moment, perhaps by an agent that runs already"
                return "the port is taken", Gap("", why, f"curl http://{listen}/healthz, or --listen 127.0.0.1:0")
            return Gap(
                "", f"{listen}: {(error.strerror or str(error)).lower()}", "zombiescope agent --listen 127.0.0.1:0"
            )
    return "the port is free"
