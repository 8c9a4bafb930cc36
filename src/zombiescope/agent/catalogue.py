# SPDX-License-Identifier: Apache-2.0
"""The list of light probes that the agent's loop runs beside its look at the cgroups. One line a probe."""

from __future__ import annotations

from zombiescope.agent.probing import Probe, Watch
from zombiescope.host.access import Host


def _nic_resets(host: Host) -> Watch:
    from zombiescope.pipeline.nic_watch import NicProbe  # noqa: PLC0415

    return NicProbe(host)


def _cores(host: Host) -> Watch:
    from zombiescope.pipeline.core_probe import CoreProbe  # noqa: PLC0415

    return CoreProbe(host)


def _softirq(host: Host) -> Watch:
    from zombiescope.pipeline.softirq_watch import SoftirqProbe  # noqa: PLC0415

    return SoftirqProbe(host)


def _reclaim(host: Host) -> Watch:
    from zombiescope.pipeline.reclaim_probe import ReclaimProbe  # noqa: PLC0415

    return ReclaimProbe(host)


def _sweeps(host: Host) -> Watch:
    from zombiescope.pipeline.sweep_probe import SweepProbe  # noqa: PLC0415

    return SweepProbe(host)


PROBES: tuple[Probe, ...] = (
    Probe("nic_resets", 5.0, _nic_resets),
    Probe("cores", 1.0, _cores),
    Probe("softirq", 5.0, _softirq),
    Probe("reclaim", 10.0, _reclaim),
    Probe("sweeps", 1.0, _sweeps),
)
