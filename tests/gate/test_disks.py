# SPDX-License-Identifier: Apache-2.0
"""XFS in LVM in a partitioned qcow2, read by an unprivileged user through libguestfs. CI: one launch to make it, one to read it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tarfile
from pathlib import Path

import pytest
from tests.gate.conftest import NOBODY, need
from tests.nobody import as_nobody
from tests.unit.trees import ECS_DEB, SYSTEM, TARGETS, WANTED, enabled, plant

from zombiescope.cli.main import main
from zombiescope.host.images import guestfs as reader
from zombiescope.pipeline import boot

del reader, boot  # imported before another user is played, who may not read them

TREE = {
    **TARGETS,
    **enabled("ecs.service", ECS_DEB),
    f"{SYSTEM}/kubelet.service": WANTED,
    "etc/os-release": 'ID=debian\nVERSION_ID="12"\nNAME="Debian GNU/Linux"\n',
    "etc/debian_version": "12.9\n",
    "etc/fstab": "/dev/vale/root / xfs defaults 0 0\n/dev/vale/var /var xfs defaults 0 0\n",
    "etc/systemd/system/far.service": "-> /opt/far/far.service",
    "etc/systemd/system/multi-user.target.wants/far.service": "-> ../far.service",
    "opt/far/far.service": "[Service]\nExecStart=/x\nRestart=always\nRestartSec=20\n",
    "bin/sh": "x",
    "var/lib/dpkg/status": "",
    "var/lib/docker/containers/ab/config.v2.json": '{"Name": "/heron", "Config": {"Image": "vale/heron"}}',
    "var/lib/docker/containers/ab/hostconfig.json": '{"RestartPolicy": {"Name": "always"}}',
    "usr/lib/systemd/system/docker.service": WANTED,
    "etc/systemd/system/multi-user.target.wants/docker.service": "-> /usr/lib/systemd/system/docker.service",
}
SCRIPT = """disk-create {disk} qcow2 2G
add {disk} format:qcow2
run
part-init /dev/sda gpt
part-add /dev/sda p 2048 206847
part-add /dev/sda p 206848 -2048
mkfs ext4 /dev/sda1
pvcreate /dev/sda2
vgcreate vale /dev/sda2
lvcreate root vale 1000
lvcreate var vale 400
mkfs xfs /dev/vale/root
mkfs xfs /dev/vale/var
mount /dev/vale/root /
mkdir /var
mount /dev/vale/var /var
tar-in {tree} /
"""


@pytest.fixture(scope="module")
def disk(guestfs: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("mkfs.xfs", "lvm")
    home = Path(guestfs["HOME"])
    tree = home / "tree.tar"
    with tarfile.open(tree, "w") as tar:
        tar.add(plant(tmp_path_factory.mktemp("tree"), TREE), ".")
    os.chown(tree, NOBODY, NOBODY)
    image = home / "disk.qcow2"
    script = SCRIPT.format(disk=image, tree=tree)
    command = ["guestfish"]
    done = subprocess.run(
        command,
        input=script,
        text=True,
        env=guestfs,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return image


def test_xfs_in_lvm_in_a_partitioned_qcow2_as_an_unprivileged_user(disk: Path, guestfs: dict[str, str]) -> None:
    before = disk.read_bytes()

    def work() -> int:
        os.environ.update(guestfs)
        return main(["check", "--image", str(disk), "--json"])

    status, out, err = as_nobody(work)
    assert status == 2, err
    document = json.loads(out)
    failing = {reason["what"]: reason["verdict"] for reason in document["reasons"] if reason["verdict"] != "OK"}
    assert failing == {
        "image-risk:ecs.service": "CRITICAL",
        "loop-risk:far.service": "WARNING",  # a link leads to it, outside of every folder that is asked for
        "loop-risk:docker/heron": "WARNING",  # on the other volume
    }
    assert not [gap for gap in document["gaps"] if gap["fact"].startswith("files:")]
    assert disk.read_bytes() == before


@pytest.mark.on_demand
@pytest.mark.parametrize("seed", range(3))
def test_a_hostile_xfs_harms_nobody(disk: Path, guestfs: dict[str, str], seed: int) -> None:
    """Its own machine may crash: an answer or UNKNOWN, no process left, this host's kernel never asked to mount it."""
    image = Path(guestfs["HOME"]) / f"hostile-{seed}.raw"
    subprocess.run(["qemu-img", "convert", "-O", "raw", disk, image], check=True)
    chance = random.Random(seed)
    with image.open("r+b") as file:
        for _ in range(400):
            file.seek(chance.randrange(110 << 20, 1 << 30) // 512 * 512 + chance.randrange(512))
            file.write(chance.randbytes(64))
    os.chown(image, NOBODY, NOBODY)
    mounted = Path("/proc/self/mountinfo").read_text().count(" - xfs ")

    def work() -> int:
        os.environ.update(guestfs)
        return main(["check", "--image", str(image)])

    status, out, err = as_nobody(work)
    assert status in (0, 1, 2, 3)
    assert "Traceback" not in err
    assert out.split(":")[0] in ("OK", "WARNING", "CRITICAL", "UNKNOWN")
    assert Path("/proc/self/mountinfo").read_text().count(" - xfs ") == mounted
    left = subprocess.run(["pgrep", "-f", str(image)], capture_output=True, text=True, check=False).stdout
    assert left == ""
