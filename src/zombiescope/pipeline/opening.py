# SPDX-License-Identifier: Apache-2.0
"""Which machine a command is about, and how it is told what is going on: loaded by every command, so it loads little."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from zombiescope.errors import UsageError
from zombiescope.host.access import Host
from zombiescope.host.live import choose_host

if TYPE_CHECKING:
    from zombiescope.config import Config

Progress = Callable[[str], None]


def open_host(root: bytes | None, config: Config | None = None) -> Host:
    """`config`: names that a DaemonSet or an operator gave it; without it, those of the file and the environment."""
    host = choose_host(root)
    if not host.is_live:
        return host
    if config is None:
        from zombiescope.config import load_config  # noqa: PLC0415 (a recording does not pay for it)

        try:
            config = load_config(None, {})
        except UsageError:
            return host  # whoever needs a value of it says what is wrong there
    names = config.text("kubernetes_node"), config.text("kubernetes_cluster")
    if not any(names):
        return host
    from zombiescope.host.live import told  # noqa: PLC0415

    return told(host, *names)
