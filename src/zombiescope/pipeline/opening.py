# SPDX-License-Identifier: Apache-2.0
"""Which machine a command is about, and how it is told what is going on: loaded by every command, so it loads little."""

from __future__ import annotations

from collections.abc import Callable

from zombiescope.host.access import Host
from zombiescope.host.live import choose_host

Progress = Callable[[str], None]


def open_host(root: bytes | None) -> Host:
    return choose_host(root)
