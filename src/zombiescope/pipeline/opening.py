# SPDX-License-Identifier: Apache-2.0
"""Which machine a command is about, and how it is told what is going on: loaded by every command, so it loads little."""

from __future__ import annotations

from collections.abc import Callable

from zombiescope.config import Config, load_config
from zombiescope.errors import UsageError
from zombiescope.host.access import Host
from zombiescope.host.live import choose_host, told

Progress = Callable[[str], None]


def open_host(root: bytes | None, config: Config | None = None) -> Host:
    """`config`: names that a DaemonSet or an operator gave it; without it, those of the file and the environment."""
    host = choose_host(root)
    if not host.is_live:
        return host
    if config is None:
        try:
            config = load_config(None, {})
        except UsageError:
            return host  # whoever needs a value of it says what is wrong there
    names = config.text("kubernetes_node"), config.text("kubernetes_cluster")
    return told(host, *names) if any(names) else host
