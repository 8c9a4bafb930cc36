# SPDX-License-Identifier: Apache-2.0
"""The boot test on the incident's image: real systemd, a real kernel, under emulation. On demand the same without the agent."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.gate.conftest import need, refuse
from tests.vm.archive import BuildError
from tests.vm.build import Store
from tests.vm.cells import cell_named

from zombiescope.cli.main import main

UNIT = """[Unit]
Description=Amazon Elastic Container Service - container agent
[Service]
Restart=on-failure
RestartSec=10s
ExecStart=/bin/sh -c "echo x >/dev/shm/ecs.$$$$; exit 5"
"""
WANTS = "/etc/systemd/system/multi-user.target.wants"


@pytest.fixture(scope="module")
def store() -> Store:
    need("qemu-system-x86_64", "debugfs")
    if os.geteuid() != 0:
        refuse("the machines' images are built by root")
    store, cell = Store(), cell_named("6.1-v2")
    try:
        store.ensure([cell.image], [cell.kernel])
    except BuildError as error:
        refuse(str(error))
    return store


def booted(
    store: Store, image: Path, program: Path, capfd: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, dict[str, str]]]:
    kernel = store.kernel(cell_named("6.1-v2").kernel)
    arguments = ["--boot", str(image), "--program", str(program), "--kernel", str(kernel), "--for", "45s", "--json"]
    status = main(["check", *arguments])
    document = json.loads(capfd.readouterr().out)
    return status, {reason["what"]: reason for reason in document["reasons"]}


def test_the_incidents_image_is_caught(
    store: Store, inside_program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    image, unit = tmp_path / "incident.raw", tmp_path / "ecs.service"
    base = store.image(cell_named("6.1-v2").image)
    subprocess.run(["cp", "--sparse=always", base, image], check=True)
    unit.write_text(UNIT)
    offset = _offset(image)
    commands = f"mkdir {WANTS}\nwrite {unit} /usr/lib/systemd/system/ecs.service\n"
    commands += f"symlink {WANTS}/ecs.service /usr/lib/systemd/system/ecs.service\n"
    device = f"{image}?offset={offset}"
    subprocess.run(
        ["/sbin/debugfs", "-w", "-f", "-", device], input=commands, text=True, check=True, capture_output=True
    )
    before = image.stat().st_mtime_ns
    status, reasons = booted(store, image, inside_program, capfd)
    assert status == 2, reasons
    loop = reasons["boot-loop:ecs.service"]
    assert loop["verdict"] == "CRITICAL"
    assert "per day" in loop["summary"]
    assert "boot" not in reasons
    assert image.stat().st_mtime_ns == before


@pytest.mark.on_demand
def test_a_clean_image_passes(store: Store, inside_program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, reasons = booted(store, store.image(cell_named("6.1-v2").image), inside_program, capfd)
    assert reasons["boot-leak"]["verdict"] == "OK"
    assert not [what for what in reasons if what.startswith("boot-loop")]


def _offset(image: Path) -> int:
    from zombiescope.host.images.disks import layout_of  # noqa: PLC0415

    with image.open("rb") as file:
        return layout_of(file).ext4[0]
