# SPDX-License-Identifier: Apache-2.0
"""Who holds zombies without a page of them, by a BPF walk over all processes and their open files. Nothing is changed."""

from __future__ import annotations

from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.holders import Holders
from zombiescope.host.access import Host
from zombiescope.kernel.bpf_holders import find_holders


def read_zombie_holders(host: Host) -> Holders | Gap:
    if not host.is_live:
        return Gap(
            "zombies[].pins[].holder", "a recording holds files, not the kernel's memory", "run it on the host itself"
        )
    try:
        return find_holders()
    except ObservationError as error:
        return Gap("zombies[].pins[].holder", error.why, error.hint)
