# SPDX-License-Identifier: Apache-2.0
"""A heavy look crosses from the child as JSON, and comes back as the same records."""

from __future__ import annotations

import json
from typing import cast

import pytest
from tests.build import Cgroup, ScriptedHost, v2_machine

from zombiescope.facts.cgroups import EmptyDirectories, Hierarchy, Residuals, Sweep
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.watching import cgroups
from zombiescope.watching.cgroups import Backlog, Heavy, heavy_of, look_heavily, walk, walked_of


def looked(name: bytes = b"/a") -> Heavy:
    host = cast("Host", ScriptedHost(v2_machine({name: Cgroup(zombies=3)})))
    hierarchy = read_memory_hierarchy(host)
    assert isinstance(hierarchy, Hierarchy)
    return heavy_of(json.loads(json.dumps(look_heavily(host, hierarchy))))


def test_each_part_with_its_time() -> None:
    found = looked(b"/\xff odd")
    assert isinstance(found.residual, Residuals)
    assert b"/\xff odd" in found.residual.by_parent
    assert isinstance(found.sweep, Sweep)
    assert isinstance(found.empty, EmptyDirectories)
    assert found.restarts is None, "no systemd here"
    assert sorted(found.seconds) == ["empty", "residual", "sweep"]


def test_a_long_sweep_of_ours_is_an_event_and_a_short_one_is_none() -> None:
    found = looked()
    assert isinstance(found.sweep, Sweep)
    assert found.own_sweep(100.0) == ()
    slow = found._replace(sweep=found.sweep._replace(seconds=0.5), seconds={"sweep": 0.5, "empty": 1.5})
    (event,) = slow.own_sweep(100.0)
    assert (event.at, event.what) == (98.0, "stat-sweep")
    assert found._replace(sweep=Gap("sweep", "refused")).own_sweep(100.0) == ()


@pytest.mark.parametrize(
    "found", [Backlog({"unit:a.service": 3}, None), Backlog({}, 7), Gap("zombies", "no BPF", "root")]
)
def test_a_walk_comes_back_as_it_was(found: Backlog | Gap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "read_backlog", lambda _: found)
    assert walked_of(json.loads(json.dumps(walk(cast("Host", ScriptedHost({})))))).backlog == found
