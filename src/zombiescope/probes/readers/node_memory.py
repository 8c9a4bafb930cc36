# SPDX-License-Identifier: Apache-2.0
"""How much memory the machine has: /proc/meminfo."""

from __future__ import annotations

from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import number, refusal

_PATH = b"/proc/meminfo"


def read_memory_bytes(host: Host) -> int | Gap:
    try:
        text = host.read(_PATH)
    except OSError as error:
        return refusal("node.memory_bytes", _PATH, error)
    for line in text.split(b"\n"):
        key, _, value = line.partition(b":")
        if key == b"MemTotal":
            kibibytes = number(value.strip().removesuffix(b"kB"))
            if kibibytes:
                return kibibytes * 1024
    return Gap("node.memory_bytes", "/proc/meminfo has no MemTotal")
