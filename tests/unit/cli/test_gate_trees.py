# SPDX-License-Identifier: Apache-2.0
"""Labelled trees, guilty ones beside near twins: the gate's verdict on each, its reason, and how many could not be judged.

The labels were written before the gate was asked. Names and delays are none that the knowledge base or a default was made for.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.trees import CONFIG, SYSTEM, TARGETS, WANTED, enabled, plant

from zombiescope.cli.main import main
from zombiescope.host.files import FolderTree

FORMATS = ("text", "json", "junit", "sarif", "nagios", "npd", "prometheus", "github")
SSH = enabled("ssh.service", WANTED)
KUBELET_OFF = {f"{SYSTEM}/kubelet.service": WANTED}
NO_DEFAULT = {path: text for path, text in TARGETS.items() if not path.endswith("default.target")}


def unit(restart: str, delay: str = "", more: str = "") -> str:
    seconds = f"RestartSec={delay}\n" if delay else ""
    install = "[Install]\nWantedBy=multi-user.target\n"
    return f"[Service]\nExecStart=/opt/x/run\nRestart={restart}\n{seconds}{more}{install}"


def local(name: str, text: str) -> dict[str, str]:
    return {f"{CONFIG}/{name}": text, f"{CONFIG}/multi-user.target.wants/{name}": f"-> ../{name}"}


ECS = enabled("ecs.service", unit("always", "10"))
TIDE = enabled("tidewatch.service", unit("always", "41"))
LIMITED = "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=4\n"


class Tree(NamedTuple):
    files: dict[str, str]
    verdict: str
    what: str = ""
    """A reason that is not OK; empty: none is."""
    not_judged: int | None = 0


TREES = {
    # the agent of the incident, and every trace of kubelet
    "ECS, kubelet installed and off": Tree({**ECS, **KUBELET_OFF}, "CRITICAL", "image-risk:ecs.service"),
    "ECS, a kubelet program alone": Tree(
        {**enabled("ecs.service", unit("on-failure", "17")), "opt/bin/kubelet": "x"},
        "CRITICAL",
        "image-risk:ecs.service",
    ),
    "ECS, a static pod": Tree(
        {**ECS, "etc/kubernetes/manifests/web.yaml": "kind: Pod\n"}, "CRITICAL", "image-risk:ecs.service"
    ),
    "ECS, k3s off": Tree(
        {**ECS, f"{SYSTEM}/k3s-agent.service": WANTED}, "CRITICAL", "image-risk:ecs.service"
    ),
    "ECS, kubelet masked": Tree(
        {**ECS, f"{CONFIG}/kubelet.service": "-> /dev/null"}, "CRITICAL", "image-risk:ecs.service"
    ),
    "ECS, a cluster without a name": Tree(
        {**ECS, **KUBELET_OFF, "etc/ecs/ecs.config": "ECS_CLUSTER=\n#ECS_CLUSTER=vale\n"},
        "CRITICAL",
        "image-risk:ecs.service",
    ),
    "ECS, linked by its vendor": Tree(
        {
            **KUBELET_OFF,
            f"{SYSTEM}/ecs.service": unit("always", "2min"),
            f"{SYSTEM}/basic.target.wants/ecs.service": "-> ../ecs.service",
        },
        "CRITICAL",
        "image-risk:ecs.service",
    ),
    "ECS, a member and no kubelet": Tree({**ECS, "etc/ecs/ecs.config": "ECS_CLUSTER=orchard-7\n"}, "OK"),
    "ECS, a member, kubelet installed": Tree(
        {**ECS, **KUBELET_OFF, "etc/ecs/ecs.config": "ECS_CLUSTER=orchard-7\n"}, "WARNING", "loop-risk:ecs.service", 1
    ),
    "ECS, its configuration too large to read": Tree(
        {**ECS, **KUBELET_OFF, "etc/ecs/ecs.config": "#" * (2 << 20)}, "WARNING", "loop-risk:ecs.service", 1
    ),
    "ECS, nothing else": Tree(ECS, "WARNING", "loop-risk:ecs.service", 1),
    "ECS off": Tree({**SSH, **KUBELET_OFF, f"{SYSTEM}/ecs.service": unit("always", "10")}, "OK"),
    "ECS masked": Tree({**SSH, **KUBELET_OFF, **ECS, f"{CONFIG}/ecs.service": "-> /dev/null"}, "OK"),
    # units that nobody knows
    "unknown, loops": Tree(TIDE, "WARNING", "loop-risk:tidewatch.service", 1),
    "unknown, limited": Tree(enabled("tidewatch.service", unit("always", "41") + LIMITED), "OK", "", 1),
    "unknown, not restarted": Tree(enabled("tidewatch.service", unit("no")), "OK", "", 1),
    "unknown, off": Tree({**SSH, f"{SYSTEM}/tidewatch.service": unit("always", "41")}, "OK"),
    "unknown, a policy that is none": Tree(
        enabled("tidewatch.service", unit("perhaps")), "UNKNOWN", "loop-risk:tidewatch.service", 1
    ),
    "unknown, the manager's limit off": Tree(
        {
            **enabled("tidewatch.service", unit("on-failure")),
            "etc/systemd/system.conf": "[Manager]\nDefaultStartLimitIntervalSec=0\n",
        },
        "WARNING",
        "loop-risk:tidewatch.service",
        1,
    ),
    "unknown, by a timer": Tree(
        {
            **enabled("tidewatch.timer", "[Timer]\nOnBootSec=3min\n"),
            f"{SYSTEM}/tidewatch.service": unit("on-failure", "29"),
        },
        "WARNING",
        "loop-risk:tidewatch.service",
        1,
    ),
    "unknown, by a path that is always there": Tree(
        {
            **enabled("tidewatch.path", "[Path]\nPathExists=/etc/hostname\n"),
            f"{SYSTEM}/tidewatch.service": unit("on-failure", "29"),
        },
        "WARNING",
        "loop-risk:tidewatch.service",
        1,
    ),
    "unknown, by a socket": Tree(
        {
            **enabled("tidewatch.socket", "[Socket]\nListenStream=/run/tide\n"),
            f"{SYSTEM}/tidewatch.service": unit("on-failure", "29"),
        },
        "OK",
    ),
    "unknown, by a socket and at boot": Tree(
        {**enabled("tidewatch.socket", "[Socket]\nListenStream=/run/tide\n"), **TIDE},
        "WARNING",
        "loop-risk:tidewatch.service",
        1,
    ),
    "unknown, called by its name and at boot": Tree(
        {
            **TIDE,
            **enabled("dbus.service", WANTED),
            "usr/share/dbus-1/system-services/t.service": "[D-BUS Service]\nName=org.t\nSystemdService=tidewatch.service\n",
        },
        "WARNING",
        "loop-risk:tidewatch.service",
        1,
    ),
    "unknown, linked early by its vendor": Tree(
        {
            f"{SYSTEM}/tidewatch.service": unit("always", "41"),
            f"{SYSTEM}/sysinit.target.wants/tidewatch.service": "-> ../tidewatch.service",
        },
        "WARNING",
        "loop-risk:tidewatch.service",
        1,
    ),
    # names that look known
    "local, named like a server": Tree(
        local("redis-herald.service", unit("always", "23")), "WARNING", "loop-risk:redis-herald.service", 1
    ),
    "a vendor's server": Tree(enabled("redis-server.service", unit("always", "23")), "OK"),
    "configured by another's file": Tree(
        {**enabled("promtail.service", unit("always", "13")), "etc/filebeat/filebeat.yml": "x: 1\n"},
        "WARNING",
        "loop-risk:promtail.service",
        1,
    ),
    "configured by its own": Tree(
        {**enabled("promtail.service", unit("always", "13")), "etc/promtail/config.yml": "x: 1\n"}, "OK"
    ),
    # trees that do not tell what starts
    "empty": Tree({}, "UNKNOWN", "audit", None),
    "no unit files": Tree({"etc/os-release": "ID=debian\n", "bin/sh": "x"}, "UNKNOWN", "audit", None),
    "no default target": Tree({**NO_DEFAULT, **ECS, **KUBELET_OFF}, "UNKNOWN", "audit", None),
    "a default target that is not there": Tree(
        {**NO_DEFAULT, **SSH, f"{CONFIG}/default.target": "-> /usr/lib/systemd/system/lantern.target"},
        "UNKNOWN",
        "audit",
        None,
    ),
    "a default target that is masked": Tree(
        {**TARGETS, **SSH, f"{CONFIG}/default.target": "-> /dev/null"}, "UNKNOWN", "audit", None
    ),
    "targets and no service": Tree(TARGETS, "UNKNOWN", "audit", None),
    "another init": Tree({**SSH, "sbin/init": "-> ../bin/busybox", "bin/busybox": "x"}, "UNKNOWN", "audit", None),
    "systemd as init": Tree({**SSH, "sbin/init": "-> /lib/systemd/systemd"}, "OK"),
}  # fmt: skip
WHOLE = ("empty", "no unit files", "no default target", "a default target that is not there")


def planted(root: Path, name: str) -> Path:
    root.mkdir(exist_ok=True)
    return plant(root, TREES[name].files if name in WHOLE else {**TARGETS, **TREES[name].files})


def check(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["check", *arguments])
    return status, capfd.readouterr().out


@pytest.mark.parametrize("name", TREES)
def test_a_labelled_tree(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    label = TREES[name]
    status, out = check(capfd, "--root", str(planted(tmp_path / "tree", name)), "--json")
    document = json.loads(out)
    assert (document["verdict"], status) == (
        label.verdict,
        ["OK", "WARNING", "CRITICAL", "UNKNOWN"].index(label.verdict),
    )
    failing = [reason["what"] for reason in document["reasons"] if reason["verdict"] != "OK"]
    assert failing == ([label.what] if label.what else [])
    assert document["not_judged"] == label.not_judged


def test_half_of_the_labels_are_near_twins_that_are_fine() -> None:
    verdicts = [tree.verdict for tree in TREES.values()]
    assert len(verdicts) >= 30
    assert verdicts.count("OK") >= 9


@pytest.mark.parametrize("form", FORMATS)
def test_what_could_not_be_judged_is_said_in_every_format(
    form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = planted(tmp_path, "unknown, limited")
    plant(root, enabled("fernwood.service", unit("no")))
    status, out = check(capfd, "--root", str(root), "--format", form)
    assert status == 0
    assert "2 could not be judged" in out
    if form in ("text", "nagios", "npd", "github"):
        assert "2 could not be judged" in out.splitlines()[0]
    _, out = check(capfd, "--root", str(planted(tmp_path / "none", "empty")), "--format", form)
    assert "services not judged" in out


def test_an_owner_declares_a_need_with_a_reason(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root, policy = planted(tmp_path / "tree", "unknown, loops"), tmp_path / "policy.toml"
    policy.write_text('[[need]]\nunit = "tidewatch.service"\nreason = "gauges of the harbour; team Quay"\n')
    for option in ("--config", "--knowledge"):
        status, out = check(capfd, "--root", str(root), option, str(policy))
        assert status == 0, out
        assert "declared as needed: gauges of the harbour; team Quay" in out
        assert "could not be judged" not in out


@pytest.mark.parametrize(
    "text", ['unit = "*"\nreason = "all"', 'unit = "*.service"\nreason = "all"', 'unit = "a.service"', 'reason = "x"',
             'unit = "a.service"\nreason = " "']
)  # fmt: skip
def test_a_need_without_a_name_or_a_reason_is_refused(
    text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(f"[[need]]\n{text}\n")
    root = planted(tmp_path / "tree", "unknown, loops")
    for option in ("--config", "--knowledge"):
        assert main(["check", "--root", str(root), option, str(policy)]) == 3
        assert "a need has a unit, by name, and a reason" in capfd.readouterr().err


@pytest.mark.parametrize(("expires", "status"), [("2999-01-01", 0), ("2020-01-01", 1)])
def test_a_waiver_with_an_end(expires: str, status: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root, gate = planted(tmp_path / "tree", "unknown, loops"), tmp_path / "gate.toml"
    gate.write_text(f'[[waiver]]\nwhat = "loop-risk:tide*"\nreason = "until spring"\nexpires = {expires}\n')
    found, out = check(capfd, "--root", str(root), "--config", str(gate))
    assert found == status
    assert "1 could not be judged" in out.splitlines()[0]


@pytest.mark.parametrize("folder", [b"/etc/systemd/system", b"/etc/systemd/system/multi-user.target.wants"])
def test_a_folder_that_cannot_be_listed_is_unknown(
    folder: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = planted(tmp_path, "ECS, a member and no kubelet")
    names = FolderTree.names

    def refused(tree: FolderTree, path: bytes) -> list[bytes]:
        if path == folder:
            raise PermissionError(13, "Permission denied")
        return names(tree, path)

    monkeypatch.setattr(FolderTree, "names", refused)
    status, out = check(capfd, "--root", str(root))
    assert status == 3
    assert "Permission denied" in out.splitlines()[0]


def test_so_many_names_are_refused_that_one_more_might_hide_among_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = planted(tmp_path, "a vendor's server")
    plant(root, {f"{CONFIG}/no name {number}.service": "" for number in range(1000)})
    status, out = check(capfd, "--root", str(root))
    assert status == 3
    assert "1,000 files and more were refused" in out.splitlines()[0]


def test_annotations_cannot_be_forged_and_are_at_most_ten_of_a_kind(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = plant(tmp_path / "100%::error,a=b", {**TARGETS, **ECS, **KUBELET_OFF})
    for number in range(13):
        plant(root, enabled(f"lark{number}.service", unit("always", "31")))
    status, out = check(capfd, "--root", str(root), "--format", "github")
    lines = out.splitlines()
    assert status == 2
    assert lines[0].startswith("::error title=zombiescope check%3A CRITICAL::the folder ")
    assert "100%25::error,a=b" in lines[0]
    assert lines[1].startswith("::error title=CRITICAL%3A image-risk%3Aecs.service::ecs.service is enabled")
    assert [line.partition(" ")[0] for line in lines].count("::warning") == 10


def test_a_large_program_in_an_image_is_a_trace_and_no_gap(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = plant(tmp_path / "tree", {**TARGETS, **ECS, "usr/bin/kubelet": b"x" * (2 << 20)})
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        archive.add(root, ".")
    for place in (["--root", str(root)], ["--image", str(tmp_path / "image.tar")]):
        status, out = check(capfd, *place, "--json")
        document = json.loads(out)
        assert (status, [reason["what"] for reason in document["reasons"]]) == (2, ["image-risk:ecs.service"])
        assert "path:/usr/bin/kubelet" in document["summary"]
        assert not [gap for gap in document["gaps"] if gap["fact"].startswith("files:")]


@pytest.mark.parametrize("name", [name for name, tree in TREES.items() if tree.not_judged is None])
def test_an_audit_of_what_does_not_tell_is_unknown_too(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "--root", str(planted(tmp_path / "tree", name)), "--json"]) == 3
    document = json.loads(capfd.readouterr().out)
    assert {finding["verdict"] for finding in document["findings"]} == {"unknown"}


IN_SH = [
    "ECS, kubelet installed and off", "ECS, a kubelet program alone", "ECS, a static pod", "ECS, k3s off", "ECS, kubelet masked",
    "ECS, a cluster without a name", "ECS, a member and no kubelet", "ECS, a member, kubelet installed",
    "ECS, nothing else", "ECS off",
    "ECS masked", "unknown, loops", "unknown, not restarted", "unknown, off", "local, named like a server", "a vendor's server",
    "configured by another's file", "configured by its own", "systemd as init",
]  # fmt: skip


@pytest.mark.parametrize("name", IN_SH)
def test_the_shell_script_knows_the_same_agents(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "sh"]) == 0
    script = tmp_path / "quick.sh"
    script.write_text(capfd.readouterr().out)
    surroundings = {"ROOT": str(planted(tmp_path / "tree", name)), "PAUSE": "0", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(["sh", script], env=surroundings, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    notes = [line.split()[:2] for line in ran.stdout.splitlines()[1:]]
    label = TREES[name]
    assert notes == ([[label.verdict, label.what.partition(":")[2]]] if label.what else [])
