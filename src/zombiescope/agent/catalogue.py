# SPDX-License-Identifier: Apache-2.0
"""The list of light probes that the agent's loop runs beside its look at the cgroups. One line a probe."""

from __future__ import annotations

from zombiescope.agent.probing import Probe

PROBES: tuple[Probe, ...] = ()
