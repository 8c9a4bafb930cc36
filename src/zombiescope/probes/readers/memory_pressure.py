# SPDX-License-Identifier: Apache-2.0
"""How much of the last ten seconds some task waited for memory: /proc/pressure/memory, in percent."""

from __future__ import annotations

from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import refusal

_PATH = b"/proc/pressure/memory"
_FACT = "pressure.memory"


def read_memory_pressure(host: Host) -> float | Gap:
    try:
        text = host.read(_PATH)
    except OSError as error:
        return refusal(_FACT, _PATH, error)
    for line in text.split(b"\n"):
        words = line.split()
        if words[:1] == [b"some"]:
            for word in words[1:]:
                key, _, value = word.partition(b"=")
                if key == b"avg10":
                    try:
                        return float(value)
                    except ValueError:
                        break
    return Gap(_FACT, "/proc/pressure/memory is not in a form we know")
