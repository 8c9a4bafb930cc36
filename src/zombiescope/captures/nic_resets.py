# SPDX-License-Identifier: Apache-2.0
"""Transmit timeouts of every network queue: each is a reset of the card, counted by the kernel where the log may be lost."""

from __future__ import annotations

import os

_DEVICES = "/sys/class/net"


def count_resets() -> int:
    total = 0
    for device in _names(_DEVICES):
        for queue in _names(f"{_DEVICES}/{device}/queues"):
            try:
                with open(f"{_DEVICES}/{device}/queues/{queue}/tx_timeout", "rb") as file:  # noqa: PTH123 (a kernel file)
                    total += int(file.read())
            except (OSError, ValueError):
                continue
    return total


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
