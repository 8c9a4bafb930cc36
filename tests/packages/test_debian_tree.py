# SPDX-License-Identifier: Apache-2.0
"""Real daemons, judged from their files: our word on every unit is systemctl's, few are unknown, none needed is called unneeded."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.unit.trees import ECS_DEB, WANTED, enabled, files_of, plant

from zombiescope.cli.main import main
from zombiescope.probes.readers.unit_files import read_unit_files


def theirs(root: Path) -> dict[str, str]:
    command = ["systemctl", f"--root={root}", "list-unit-files", "--output=json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {row["unit_file"]: row["state"] for row in rows}


def differences(root: Path) -> dict[str, object]:
    ours = read_unit_files(files_of(root)).units
    return {
        name: (state, ours.get(name))
        for name, state in theirs(root).items()
        if name not in ours or ours[name].enabled != state
    }


def audit(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["audit", "--json", *arguments]) == 0
    document: dict[str, Any] = json.loads(capfd.readouterr().out)
    return document


def test_our_word_is_systemctls_for_every_unit(debian: Path) -> None:
    assert len(theirs(debian)) > 250
    assert differences(debian) == {}


def test_after_any_change_that_systemctl_makes(debian: Path, tmp_path: Path) -> None:
    root = tmp_path / "changed"
    subprocess.run(["cp", "-a", debian, root], check=True)
    chance = random.Random(7)
    names = sorted(name for name in theirs(root) if name.endswith((".service", ".socket", ".timer")))
    for verb in ("disable", "mask", "enable", "unmask", "reenable", "preset"):
        subprocess.run(
            ["systemctl", f"--root={root}", verb, *chance.sample(names, 40)], check=False, capture_output=True
        )
        assert differences(root) == {}, verb
    for unit in chance.sample(names, 20):
        subprocess.run(
            ["systemctl", f"--root={root}", "add-wants", "multi-user.target", unit], check=False, capture_output=True
        )
    assert differences(root) == {}


def test_few_are_unknown_and_none_needed_is_called_unneeded(debian: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document = audit(capfd, "--root", str(debian))
    units = document["units"]
    assert len([unit for unit in units if unit["enabled"] == "enabled"]) >= 50
    unknown = [unit["name"] for unit in units if unit["verdict"] == "unknown"]
    assert len(unknown) <= 0.2 * len(units), unknown
    assert [unit["name"] for unit in units if unit["verdict"] == "unneeded"] == []
    assert all(unit["start_limit_can_trip"] is not None for unit in units)
    assert not [gap for gap in document["gaps"] if gap["fact"].startswith("files:")]


def test_the_vendors_image_fails_the_gate(debian: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "vendor"
    subprocess.run(["cp", "-a", debian, root], check=True)
    plant(root, {**enabled("ecs.service", ECS_DEB), **enabled("kubelet.service", WANTED)})
    assert main(["check", "--root", str(root)]) == 2
    assert "image-risk:ecs.service" in capfd.readouterr().out
    plant(root, {"etc/systemd/system/ecs.service.d/50.conf": "[Unit]\nStartLimitIntervalSec=300\nStartLimitBurst=5\n"})
    ecs = {unit["name"]: unit for unit in audit(capfd, "--root", str(root))["units"]}["ecs.service"]
    assert (ecs["can_loop"], ecs["start_limit_can_trip"]) == (False, True)


def test_a_stock_server_passes_and_one_agent_more_does_not(
    server: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--root", str(server), "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["verdict"], document["not_judged"]) == ("OK", 0)
    units = {unit["name"]: unit for unit in audit(capfd, "--root", str(server))["units"]}
    assert {"ssh.service", "cron.service", "containerd.service"} <= units.keys()
    assert units["containerd.service"]["can_loop"]
    root = tmp_path / "with-agent"
    subprocess.run(["cp", "-a", server, root], check=True)
    plant(root, {**enabled("ecs.service", ECS_DEB), "usr/lib/systemd/system/kubelet.service": WANTED})
    assert main(["check", "--root", str(root)]) == 2
    assert "image-risk:ecs.service" in capfd.readouterr().out


def test_no_daemon_of_debians_is_a_risk(debian: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--root", str(debian)]) == 0
    assert capfd.readouterr().out.startswith("OK: ")


@pytest.fixture(scope="module")
def ext4(debian: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ext4")
    root = folder / "root"
    subprocess.run(["cp", "-a", debian, root], check=True)
    etc = root / "etc/systemd/system"
    (etc / "line\nbreak.service").write_text(WANTED)
    (etc / "esc\x1b[31m.service").write_text(WANTED)
    (etc / "quoted\" <3> 'x.service").write_text(WANTED)
    unit = (root / "lib/systemd/system/ssh.service").read_text()
    plant(root, {"etc/systemd/extra/long.service": unit})
    (etc / "long.service").symlink_to(
        "/etc/systemd/" + "system/../" * 12 + "extra/long.service"
    )  # too long for the inode
    with (etc / "huge.service").open("wb") as file:
        file.truncate(1 << 30)
    image = folder / "disk.raw"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, image, "1500M"], check=True, capture_output=True)
    return image


def test_a_raw_ext4_image_is_read_without_mounting(ext4: Path, debian: Path, capfd: pytest.CaptureFixture[str]) -> None:
    image, folder = audit(capfd, "--image", str(ext4), "--all"), audit(capfd, "--root", str(debian), "--all")
    ours = {unit["name"]: unit for unit in image["units"]}
    assert {unit["name"]: ours.get(unit["name"]) for unit in folder["units"]} == {
        unit["name"]: unit for unit in folder["units"]
    }
    assert ours["long.service"]["restart_policy"] == ours["ssh.service"]["restart_policy"] == "on-failure"
    facts = {gap["fact"]: gap["reason"] for gap in image["gaps"]}
    assert "1,073,741,824 bytes" in facts["files: /etc/systemd/system/huge.service"]
    assert not any("\x1b" in fact for fact in facts)


def test_in_a_partition_too(ext4: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    disk = tmp_path / "partitioned.raw"
    entry = bytes([0, 0, 0, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little") + (3_072_000).to_bytes(4, "little")
    with disk.open("wb") as file:
        file.write((bytes(446) + entry + bytes(48) + b"\x55\xaa").ljust(1 << 20, b"\0"))
    subprocess.run(
        ["dd", f"if={ext4}", f"of={disk}", "bs=1M", "seek=1", "conv=sparse,notrunc", "status=none"], check=True
    )
    assert len(audit(capfd, "--image", str(disk))["units"]) > 100


@pytest.mark.parametrize("damage", ["superblock", "cut", "groups"])
def test_a_damaged_ext4_image_is_unknown(
    ext4: Path, tmp_path: Path, damage: str, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.raw"
    subprocess.run(["cp", "--sparse=always", ext4, broken], check=True)
    with broken.open("r+b") as file:
        if damage == "cut":
            file.truncate(1 << 20)
        else:
            file.seek(1024 + 4 if damage == "superblock" else 4096)
            file.write(random.Random(1).randbytes(40 if damage == "superblock" else 8192))
    assert main(["check", "--image", str(broken)]) == 3
    assert "UNKNOWN" in capfd.readouterr().out
