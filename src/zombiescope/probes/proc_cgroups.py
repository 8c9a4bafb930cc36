# SPDX-License-Identifier: Apache-2.0
"""The table /proc/cgroups: a row a controller, with the number of cgroups of the hierarchy it is bound to, zombies included."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import number, quoted, refusal


class ControllerRow(NamedTuple):
    hierarchy: int
    cgroups: int
    is_enabled: bool


def read_controller_row(host: Host, controller: bytes = b"memory") -> ControllerRow | Gap:
    """The controller's row in /proc/cgroups. A missing row is a gap: it does not mean that there are no cgroups."""
    path = b"/proc/cgroups"
    try:
        text = host.read(path)
    except OSError as error:
        return refusal("memcg.counted", path, error)
    for line in text.split(b"\n"):
        fields = line.split()
        if len(fields) == 4 and fields[0] == controller:
            values = [number(field) for field in fields[1:]]
            if values[0] is None or values[1] is None or values[2] is None:
                return Gap(
                    "memcg.counted", f"/proc/cgroups: the {shown(controller)} row is not readable: {quoted(line)}"
                )
            return ControllerRow(values[0], values[1], values[2] != 0)
    if not text.startswith(b"#subsys_name"):
        return Gap("memcg.counted", "/proc/cgroups is empty or not in a form we know")
    return Gap(
        "memcg.counted",
        f"/proc/cgroups has no {shown(controller)} row",
        "kernels built without MEMCG_V1 hide it; on cgroup v2 cgroup.stat has the count",
    )
