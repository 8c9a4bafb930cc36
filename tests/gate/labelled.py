# SPDX-License-Identifier: Apache-2.0
"""Labelled images that other people's tools made, kept from tuning: a stock system, and the same with one thing more or less.

The labels were written before the gate was asked. What is planted is named like nothing that the knowledge base was made for, but
for the agent of the incident.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.unit.trees import CONFIG, ECS_DEB, SYSTEM, WANTED, enabled, plant


class Variant(NamedTuple):
    planted: Mapping[str, str]
    verdict: str
    what: str = ""
    """The reason that is not OK; empty: none is."""
    removed: tuple[str, ...] = ()


def unit(text: str) -> str:
    return f"[Service]\nExecStart=/opt/plover/run\n{text}[Install]\nWantedBy=multi-user.target\n"


LOOPS = "Restart=always\nRestartSec=37\n"
KUBELET_OFF = {f"{SYSTEM}/kubelet.service": WANTED}
KUBELET_ON = {**enabled("kubelet.service", WANTED), "var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n"}
POD = {
    "kind": "Pod",
    "metadata": {"name": "ecs"},
    "spec": {"containers": [{"name": "a", "image": "amazon/amazon-ecs-agent:1"}]},
}
CONTAINER = {"Name": "/plover", "Config": {"Image": "marsh/plover:3"}}
VARIANTS = {
    "stock": Variant({}, "OK"),
    "incident": Variant({**enabled("ecs.service", ECS_DEB), **KUBELET_OFF}, "CRITICAL", "image-risk:ecs.service"),
    "agent alone": Variant(enabled("ecs.service", ECS_DEB), "WARNING", "loop-risk:ecs.service"),
    "agent of a member": Variant({**enabled("ecs.service", ECS_DEB), "etc/ecs/ecs.config": "ECS_CLUSTER=marsh\n"}, "OK"),
    "unknown, loops": Variant(enabled("plover.service", unit(LOOPS)), "WARNING", "loop-risk:plover.service"),
    "unknown, once": Variant(enabled("plover.service", unit("")), "OK"),
    "no default target": Variant({}, "UNKNOWN", "audit", (f"{SYSTEM}/default.target", f"{CONFIG}/default.target")),
    "container, always": Variant(
        {
            **enabled("docker.service", WANTED),
            "var/lib/docker/containers/ab/config.v2.json": json.dumps(CONTAINER),
            "var/lib/docker/containers/ab/hostconfig.json": '{"RestartPolicy": {"Name": "always"}}',
        },
        "WARNING",
        "loop-risk:docker/plover",
    ),
    "agent as a static pod": Variant(
        {**KUBELET_ON, "etc/kubernetes/manifests/ecs.yaml": json.dumps(POD)}, "CRITICAL", "image-risk:pod/default/ecs/a"
    ),
    "quadlet": Variant(
        {"etc/containers/systemd/plover.container": unit(LOOPS) + "[Container]\nImage=marsh/plover\n"},
        "WARNING",
        "loop-risk:plover.service",
    ),
    "timer, every nine seconds": Variant(
        {**enabled("plover.timer", "[Timer]\nOnUnitActiveSec=9\nOnBootSec=9\n"), f"{SYSTEM}/plover.service": unit("")},
        "WARNING",
        "loop-risk:timer/plover.timer",
    ),
    "upheld": Variant(
        {
            f"{SYSTEM}/plover.service": unit(""),
            f"{CONFIG}/multi-user.target.upholds/plover.service": f"-> /{SYSTEM}/plover.service",
        },
        "WARNING",
        "loop-risk:plover.service",
    ),
}  # fmt: skip


def make(base: Path, name: str, folder: Path) -> Path:
    """A copy of a root with one variant planted."""
    variant = VARIANTS[name]
    root = folder / name.replace(" ", "-").replace(",", "")
    subprocess.run(["cp", "-a", "--reflink=auto", base, root], check=True)
    for path in variant.removed:
        for place in (root / path, root / path.removeprefix("usr/")):
            if place.is_symlink() or place.exists():
                place.unlink()
    for path in variant.planted:
        if (root / path).is_symlink():
            (root / path).unlink()
    return plant(root, variant.planted)


def stock_root(
    folder: Path, packages: tuple[str, ...] = ("systemd", "systemd-sysv", "dbus", "cron", "openssh-server")
) -> Path:
    """By mmdebstrap, whose packages are unpacked and not configured, then preset as an image builder does."""
    root = folder / "base"
    command = ["mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(packages)}", "bookworm", str(root)]
    subprocess.run(command, check=True, capture_output=True)
    subprocess.run(["systemctl", f"--root={root}", "preset-all"], check=True, capture_output=True)
    for heavy in ("usr/share/doc", "usr/share/locale", "usr/share/man", "usr/lib/x86_64-linux-gnu/perl-base"):
        shutil.rmtree(root / heavy, ignore_errors=True)
    return root
