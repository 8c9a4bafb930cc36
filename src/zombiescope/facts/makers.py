# SPDX-License-Identifier: Apache-2.0
"""Who made a cgroup, as a person says it."""

from __future__ import annotations

from zombiescope.facts.pods import workload_of

_MAKERS = {"unit": "{}", "path": "{}", "container": "containers of {}", "session": "the login session of user {}"}


def maker_said(maker: str) -> str:
    """Who made them, as a person says it: `ecs.service`, `the login session of user 998`, `CronJob batch/etl`."""
    if workload := workload_of(maker):
        return workload.called
    kind, _, name = maker.partition(":")
    return _MAKERS.get(kind, f"{kind} {{}}").replace("{}", name) if name else maker
