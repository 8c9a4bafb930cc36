# SPDX-License-Identifier: Apache-2.0
"""Watch for a pass of reclaim, for a window: `scan --watch`."""

from __future__ import annotations

from zombiescope.analysis.reclaim_pass import ReclaimPass, derive_reclaim_pass
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.probes.readers.reclaim_passes import ReclaimWindow


def watch_reclaim_pass(host: Host, seconds: float) -> ReclaimPass | Gap:
    """Stamps the begin and the end of every call, and changes nothing; ends with the process, however that ends."""
    window = ReclaimWindow(host)
    try:
        host.wait(seconds)
        return derive_reclaim_pass(window.seen(), host.wall_clock())
    finally:
        window.close()
