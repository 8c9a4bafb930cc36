# SPDX-License-Identifier: Apache-2.0
"""`audit` and `export` as a person and a program meet them."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from datetime import date
from pathlib import Path

import pytest
from tests.unit.trees import CONFIG, ECS_DEB, ECS_RPM, KUBELET, SYSTEM, TARGETS, WANTED, enabled, plant

from zombiescope.analysis.scan import Population
from zombiescope.cli.main import main
from zombiescope.diagnosis.gate import judge_gate, judge_population
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.cgroups import CountSource

NODE = {
    **TARGETS,
    **KUBELET,
    **enabled("ecs.service", ECS_RPM),
    **enabled("mystery.service", WANTED),
    "etc/cron.d/job": "# no\n*/5 * * * * root /bin/job\n@daily root /bin/other\n",
    "var/log/pods/ns_web_uid/app/7.log": "",
}


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(list(arguments))
    out, err = capfd.readouterr()
    return status, out, err


def test_json_of_a_root(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capfd, "audit", "--root", str(plant(tmp_path, NODE)), "--json")
    document = json.loads(out)
    assert (status, err, document["schema"], document["subject"]) == (0, "", "zombiescope.audit/1", "root")
    units = {unit["name"]: unit for unit in document["units"]}
    ecs = units["ecs.service"]
    assert (ecs["enabled"], ecs["verdict"], ecs["can_loop"], ecs["start_limit_can_trip"]) == (
        "enabled",
        "unneeded",
        True,
        False,
    )
    assert (ecs["from_vendor"], ecs["state"], ecs["restarts"]) == (True, None, None)
    assert {"fact": "RestartSec", "value": "10s", "source": f"/{SYSTEM}/ecs.service"} in ecs["evidence"]
    assert units["mystery.service"]["verdict"] == "unknown"
    gaps = {gap["fact"] for gap in document["gaps"]}
    assert {"units[].state", "units[].restarts", "units[].zombies", "units[].births", "units"} <= gaps
    assert [(one["when"], one["command"]) for one in document["schedules"]] == [
        ("*/5 * * * *", "root /bin/job"),
        ("@daily", "root /bin/other"),
    ]
    assert [(one["runtime"], one["name"], one["restarts"]) for one in document["containers"]] == [
        ("kubelet", "ns/web/app", 7)
    ]


def test_an_image_and_its_folder_are_judged_alike(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = plant(tmp_path / "root", NODE)
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        archive.add(root, ".")
    _, folder, _ = run(capfd, "audit", "--root", str(root), "--json", "--all")
    _, image, _ = run(capfd, "audit", "--image", str(tmp_path / "image.tar"), "--json", "--all")
    assert json.loads(folder)["units"] == json.loads(image)["units"]
    assert json.loads(folder)["roles"] == json.loads(image)["roles"] == ["kubernetes"]


def test_text_leads_with_the_finding(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capfd, "audit", "--root", str(plant(tmp_path, NODE)))
    assert status == 0
    words = " ".join(out.split())
    assert out.startswith(f"the folder {tmp_path}: an agent with nothing to serve is enabled: ecs.service (")
    assert (
        "and that may loop (critical): ecs.service: Restart=on-failure with 5 delays of 10 s (50 s) do not fit" in words
    )
    assert "8,640 restarts per day, each with a memory cgroup of its own" in words


def test_escapes_in_names_never_reach_a_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = plant(tmp_path, {**TARGETS, "etc/cron.d/job": b"* * * * * root \x1b]0;evil\x07\xff\n"})
    (root / CONFIG).mkdir(parents=True)
    (root / CONFIG / os.fsdecode(b"\x1b[2J\n\xff.service")).write_text(WANTED)
    for arguments in (["audit"], ["audit", "--json"], ["export", "policy"]):
        _, out, err = run(capfd, *arguments, "--root", str(root))
        assert not set(out + err) & {"\x1b", "\x07", "\x9b"}


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--image", "/nowhere"], 2),
        (["--root", "/nowhere"], 2),
        (["--knowledge", "/nowhere"], 2),
        (["--root", "/", "--image", "x"], 2),
    ],
)
def test_errors_say_what_why_and_what_to_try(
    arguments: list[str], status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    found, out, err = run(capfd, "audit", *arguments)
    assert (found, out) == (status, "")
    assert all(word in err for word in ("error:", "why:", "try:"))


def test_policy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capfd, "export", "policy", "--root", str(plant(tmp_path, NODE)))
    assert "## To be removed: enabled, and nothing needs it (1)" in out
    assert "| `ecs.service` | enabled | yes | yes |" in out
    assert "## To be decided: nobody could say whether it is needed (1)" in out
    assert "`/etc/cron.d/job`" in out


def test_npd_translates_our_exit_codes(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, out, _ = run(capfd, "export", "npd")
    rule = json.loads(out)["rules"][0]
    for ours, theirs in ((0, 0), (1, 1), (2, 1), (3, 2), (70, 2)):
        fake = plant(tmp_path, {"zombiescope": f"#!/bin/sh\nexit {ours}\n"}) / "zombiescope"
        fake.chmod(0o755)
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        assert subprocess.run([rule["path"], *rule["args"]], env=environment, check=False).returncode == theirs
    assert json.loads(out)["conditions"][0]["type"] == rule["condition"]


def test_kubelet_has_no_invented_field(capfd: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capfd, "export", "kubelet")
    fields = [line.partition(":")[0] for line in out.splitlines() if line and line[0].isalpha()]
    assert fields == ["apiVersion", "kind", "cgroupDriver", "volumeStatsAggPeriod", "systemReserved"]


@pytest.mark.parametrize(
    ("files", "answer", "status"),
    [
        (
            {
                "proc/self/mountinfo": "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                "sys/fs/cgroup/cgroup.stat": "nr_descendants 3\nnr_dying_descendants 7\n",
            },
            "OK zombies: 7 beside 4 live (source: nr_dying_descendants)",
            1,
        ),
        (
            {
                "proc/self/mountinfo": "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                "sys/fs/cgroup/cgroup.stat": "nr_dying_descendants 9000\nnr_subsys_memory 3\nnr_dying_subsys_memory 2000\n",
            },
            "WARNING zombies: 2000 beside 3 live (source: nr_dying_subsys_memory)",
            1,
        ),
        (
            {
                "proc/self/mountinfo": "1 1 0:1 / /m rw - cgroup cgroup rw,memory\n",
                "proc/cgroups": "memory\t1\t68680\t1\n",
                "m/a/x": "",
            },
            "CRITICAL zombies: 68678 beside 2 live (source: /proc/cgroups)",
            2,
        ),
        ({}, "UNKNOWN zombies: the memory cgroups cannot be counted here", 1),
    ],
)
def test_the_shell_script(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], files: dict[str, str], answer: str, status: int
) -> None:
    root = plant(tmp_path / "root", {**files, **enabled("ecs.service", ECS_DEB), **enabled("fine.service", WANTED)})
    script = tmp_path / "quick.sh"
    script.write_text(run(capfd, "export", "sh")[1])
    ran = subprocess.run(
        ["sh", script],
        env={"ROOT": str(root), "PAUSE": "0", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (status, "")
    assert ran.stdout.splitlines() == [
        answer,
        (
            "WARNING ecs.service can be restarted for ever: Restart=on-failure, 10 s apart, limit 5 in 10 s; is it needed? "
            "Amazon ECS container agent: needed by members of an Amazon ECS cluster, and no node of Kubernetes"
        ),
    ]


@pytest.mark.parametrize(("expected", "word"), [("", "OK"), ("50", "WARNING"), ("51", "OK")])
def test_the_shell_script_knows_how_many_are_expected(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], expected: str, word: str
) -> None:
    root = plant(
        tmp_path / "root",
        {
            "proc/self/mountinfo": "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/cgroup.stat": "nr_descendants 99\nnr_dying_descendants 50\n",
        },
    )
    script = tmp_path / "quick.sh"
    script.write_text(run(capfd, "export", "sh")[1])
    ran = subprocess.run(
        ["sh", script],
        env={"ROOT": str(root), "PAUSE": "0", "PATH": "/usr/bin:/bin", "EXPECTED_LIVE": expected},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout.split()[0], ran.returncode) == (word, int(word == "WARNING")), ran.stdout
    population = Population(150, 100, CountSource.CGROUP_STAT_DESCENDANTS)
    limits = Thresholds(expected_live=int(expected or 0))
    assert judge_gate(judge_population(population, limits), (), date(2026, 1, 1)).verdict == word, "as check says"
