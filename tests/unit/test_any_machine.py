# SPDX-License-Identifier: Apache-2.0
"""A machine whose every file may hold anything: a document or a clear error, never an exception."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from tests.build import V2_MOUNT, Cgroup, Machine, Use, v1_machine, v2_machine, write_machine

from zombiescope.analysis.scan import derive_scan
from zombiescope.facts.gap import Gap
from zombiescope.host.live import TreeHost
from zombiescope.pipeline.doctor import examine
from zombiescope.pipeline.scan import scan
from zombiescope.presenters.doctor_report import Report, render_report
from zombiescope.presenters.doctor_text import Shown, render_report_text
from zombiescope.presenters.scan_json import render_scan
from zombiescope.presenters.scan_text import render_scan_text

BUSY, DEAD = Use(file=1 << 20, anon=8192), Use(shmem=4096, file=8192)
GROUPS = {
    b"/a": Cgroup(dead=DEAD, zombies=3),
    b"/a/b": Cgroup(own=BUSY),
    b"/c\xff": Cgroup(own=BUSY, zombies=2, dead=DEAD),
}
MACHINES = {"v1": v1_machine(GROUPS), "hybrid": v1_machine(GROUPS, hybrid=True), "v2": v2_machine(GROUPS)}
ANYTHING = st.one_of(
    st.binary(max_size=200),
    st.just(b""),
    st.integers(0, 1 << 70).map(lambda number: b"%d\n" % number),
    st.sampled_from([b"-1\n", b"max\n", b"\0" * 9, b"0-18446744073709551615\n", b"nan inf\n", b"9" * 5000]),
)


@st.composite
def spoiled(draw: st.DrawFn, machine: Machine) -> Machine:
    """Some files hold anything, some are cut short, some lost lines, some are gone."""
    files = dict(machine)
    for path in draw(st.lists(st.sampled_from(sorted(machine)), min_size=1, max_size=6, unique=True)):
        way = draw(st.sampled_from(["anything", "cut", "numbers", "gone"]))
        if way == "gone":
            del files[path]
        elif way == "cut":
            files[path] = files[path][: draw(st.integers(0, len(files[path])))]
        elif way == "numbers":
            words = files[path].split(b" ")
            words[draw(st.integers(0, len(words) - 1))] = draw(ANYTHING)
            files[path] = b" ".join(words)
        else:
            files[path] = draw(ANYTHING)
    return files


def documents(root: bytes) -> list[dict[str, Any]]:
    host = TreeHost(root)
    seen = scan(host)
    examined = examine(host, 10)
    parts = [
        *render_scan_text(seen.observation, seen.diagnosis, explain=True),
        *render_report_text(Report(examined.case, examined.diagnosis), Shown(explain=True)),
    ]
    console = Console(file=io.StringIO(), width=60, color_system=None)
    for part in parts:
        console.print(part)
    rendered = [
        render_scan(seen.observation, seen.diagnosis),
        render_report(Report(examined.case, examined.diagnosis)),
    ]
    return [json.loads(json.dumps(document, allow_nan=False)) for document in rendered]


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_machine_gives_a_document(name: str, data: st.DataObject) -> None:
    files = data.draw(spoiled(MACHINES[name]))
    folder = tempfile.mkdtemp(prefix="zombiescope-any-")
    try:
        found, _ = documents(write_machine(folder, files))
    finally:
        shutil.rmtree(folder)
    memcg = found["memcg"]
    if memcg["zombies"] is not None:
        assert memcg["zombies"] == memcg["counted"] - memcg["live"] >= 0
    for row in found["parents"]:
        assert all(value is None or 0 <= value < 1 << 64 for value in row["bytes"].values())
    assert found["severity"] in ("ok", "warning", "critical", "unknown")


def test_a_whole_machine_has_only_the_gaps_of_a_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    for name, machine in MACHINES.items():
        found, _ = documents(write_machine(tmp_path_factory.mktemp(name), machine))
        facts = {gap["fact"] for gap in found["gaps"] if not gap["fact"].startswith("growth.")}
        ordinary = {"cost.sweep_seconds", "cost.sweep_cgroups_read", "cost.reclaim_pass_seconds", "handed_on"}
        assert facts == ordinary | (set() if name == "v2" else {"parents[].zombies"}), name
        assert found["memcg"]["zombies"] == 5
        assert found["parents"][0]["bytes"]["shmem"] == 4096


def test_two_machines_in_one_cannot_be_confused(tmp_path_factory: pytest.TempPathFactory) -> None:
    """v2 files below a machine whose memory is on v1 change nothing."""
    machine = {**MACHINES["v1"], V2_MOUNT + b"/cgroup.stat": b"nr_descendants 1\nnr_dying_descendants 999\n"}
    seen = scan(TreeHost(write_machine(tmp_path_factory.mktemp("mixed"), machine)))
    population = derive_scan(seen.observation.snapshot).population
    assert not isinstance(population, Gap)
    assert population.zombies == 5
