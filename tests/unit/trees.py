# SPDX-License-Identifier: Apache-2.0
"""Small roots of machines, made of a table: path to text, `-> target` for a link."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from zombiescope.facts.units import UnitFiles
from zombiescope.host.files import Files, FolderTree
from zombiescope.probes.readers.unit_files import read_unit_files

SYSTEM = "usr/lib/systemd/system"
CONFIG = "etc/systemd/system"
SERVICE = "[Service]\nExecStart=/bin/x\n"
WANTED = SERVICE + "[Install]\nWantedBy=multi-user.target\n"
TARGETS = {
    f"{SYSTEM}/multi-user.target": "[Unit]\nRequires=basic.target\n",
    f"{SYSTEM}/basic.target": "[Unit]\nRequires=sysinit.target\n",
    f"{SYSTEM}/sysinit.target": "[Unit]\n",
    f"{SYSTEM}/default.target": "-> multi-user.target",
}
# As its packages ship it, by the documented keys. The rpm's unit alone prevents a restart after exit status 5.
ECS_DEB = """[Unit]
Description=Amazon Elastic Container Service - container agent
Documentation=https://aws.amazon.com/documentation/ecs/
Requires=docker.service
After=docker.service
After=cloud-final.service

[Service]
Type=simple
Restart=on-failure
RestartSec=10s
EnvironmentFile=-/var/lib/ecs/ecs.config
EnvironmentFile=-/etc/ecs/ecs.config
ExecStartPre=/usr/libexec/amazon-ecs-init pre-start
ExecStart=/usr/libexec/amazon-ecs-init start
ExecStop=/usr/libexec/amazon-ecs-init stop
ExecStopPost=/usr/libexec/amazon-ecs-init post-stop

[Install]
WantedBy=multi-user.target
"""
ECS_RPM = ECS_DEB.replace("Restart=on-failure\n", "Restart=on-failure\nRestartPreventExitStatus=5\n")


def plant(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, str) and text.startswith("-> "):
            path.symlink_to(text.removeprefix("-> "))
        else:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def files_of(root: Path) -> Files:
    return Files(FolderTree(os.fsencode(root)))


def units_of(root: Path, files: Mapping[str, str | bytes]) -> UnitFiles:
    return read_unit_files(files_of(plant(root, files)))


def enabled(unit: str, text: str) -> dict[str, str]:
    """A vendor's unit, enabled."""
    return {f"{SYSTEM}/{unit}": text, f"{CONFIG}/multi-user.target.wants/{unit}": f"-> /{SYSTEM}/{unit}"}


KUBELET = enabled("kubelet.service", WANTED) | {"var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n"}
_MEMORY = "sys/fs/cgroup/memory"
# The node of the case: 68,680 counted, 240 directories, the ECS agent enabled beside kubelet.
INCIDENT: dict[str, str] = {
    "proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t5\t68680\t1\n",
    "proc/self/mountinfo": "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    "proc/self/cgroup": "5:memory:/\n",
    "proc/sys/kernel/hostname": "node-1\n",
    "proc/sys/kernel/osrelease": "5.15.0-aws\n",
    "proc/sys/kernel/random/boot_id": "x\n",
    "proc/uptime": "700000.00 1.00\n",
    **{f"{_MEMORY}/system.slice/s{number}.service/memory.stat": "cache 0\n" for number in range(238)},
    **TARGETS,
    **KUBELET,
    **enabled("ecs.service", ECS_DEB),
}
