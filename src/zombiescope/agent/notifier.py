# SPDX-License-Identifier: Apache-2.0
"""What systemd is told: ready, alive, ending."""

from __future__ import annotations

import socket
from contextlib import suppress


class Notifier:
    def __init__(self, address: str | None) -> None:
        self._address = "\0" + address[1:] if address and address.startswith("@") else address

    def say(self, *lines: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaking:
            speaking.sendto("\n".join(lines).encode(), self._address)
