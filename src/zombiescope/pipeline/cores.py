# SPDX-License-Identifier: Apache-2.0
"""What each core did over a window, and on request who burnt the saturated ones: `cores`."""

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from zombiescope.facts.cgroups import Identity
from zombiescope.facts.cores import CoresSeen
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.host.recording import ReplayHost
from zombiescope.probes.readers.cpu_time import PATH
from zombiescope.probes.readers.node import read_identity
from zombiescope.watching.cores import DetailedCoresWatch
from zombiescope.watching.window import let_pass


class CoresAnswer(NamedTuple):
    taken_at: float
    identity: Identity
    seen: CoresSeen | Gap


def watch_cores(
    host: Host, seconds: float, progress: Callable[[float], None] = lambda _: None, *, with_blame: bool = True
) -> CoresAnswer:
    """For so many seconds; of a recording for as long as it looked at the cores."""
    if isinstance(host, ReplayHost):
        host.go_to(PATH)
    with closing(DetailedCoresWatch(host, with_blame=with_blame)) as watch:
        watch.look()
        taken_at, identity = host.wall_clock(), read_identity(host)
        let_pass(host, seconds, watch.look, progress)
        return CoresAnswer(taken_at, identity, watch.seen())
