# SPDX-License-Identifier: Apache-2.0
"""Where the agent serves and whom it answers, by its configuration; and what systemd is told: ready, alive, ending."""

from __future__ import annotations

import selectors
import socket
from contextlib import suppress

from zombiescope.config import Config, listen_address
from zombiescope.errors import UsageError
from zombiescope.web.guards import Guards, guards_for, read_token
from zombiescope.web.http import load_h11
from zombiescope.web.listening import open_listening, remove_path
from zombiescope.web.server import Answering, Server


def open_door(config: Config, selector: selectors.BaseSelector, answer: Answering) -> Server | None:
    """None where it is to serve nowhere."""
    address = listen_address(config.text("listen"))
    if address is None:
        return None
    load_h11("cannot serve metrics")
    guards = guards_of(config)
    try:
        listening = open_listening(address)
    except OSError as error:
        what = f"cannot listen on {config.text('listen')}"
        why = (error.strerror or str(error)).lower()
        raise UsageError(what, why, "--listen 127.0.0.1:0 takes any free port") from error
    return Server(listening, selector, answer, guards)


def close_door(config: Config, server: Server) -> None:
    server.close()
    address = listen_address(config.text("listen"))
    if isinstance(address, str):
        remove_path(address)


def guards_of(config: Config) -> Guards:
    """Raises UsageError where the token cannot be read."""
    address = listen_address(config.text("listen"))
    token = config.text("token_file")
    where = address[0] if isinstance(address, tuple) else ""
    return guards_for(where, config.words("hosts"), read_token(token) if token else "")


class Notifier:
    def __init__(self, address: str | None) -> None:
        self._address = "\0" + address[1:] if address and address.startswith("@") else address

    def say(self, *lines: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaking:
            speaking.sendto("\n".join(lines).encode(), self._address)
