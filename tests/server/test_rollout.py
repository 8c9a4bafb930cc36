# SPDX-License-Identifier: Apache-2.0
"""The planned rollout as Ansible really runs it: in check mode, against two containers, wave after wave, changing nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.server.running import PATIENCE_SECONDS, ended, wait_for

from zombiescope.presenters.fleet_text import render_ansible
from zombiescope.remedies.rollout import CohortPlan, waves_of

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"


@contextmanager
def container(folder: Path, name: str) -> Iterator[Path]:
    """Namespaces of its own, and a shell that Ansible enters it by. A `zombiescope` in it writes down that it was called."""
    ready = folder / f"{name}.ready"
    inside = f"hostname {name} && echo $$ > {ready} && exec sleep 600"
    command = ["unshare", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", inside]
    with ended(subprocess.Popen(command, text=True)) as process:
        assert wait_for(ready.exists, step=0.05)
        (children,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        enter = folder / f"enter-{name}"
        enter.write_text(f'#!/bin/sh\nexec nsenter -t {children} -u -m -p -- env PATH={folder}:$PATH /bin/sh "$@"\n')
        enter.chmod(0o755)
        yield enter
        subprocess.run(["kill", "-9", children], check=False)


def test_ansible_checks_the_waves_in_order_and_changes_nothing(tmp_path: Path) -> None:
    if not PLAYBOOK.exists() or not shutil.which("unshare"):
        pytest.fail("ansible-core and util-linux belong to this tier")
    calls = tmp_path / "calls"
    called = tmp_path / "zombiescope"
    real = f'{sys.executable} -m zombiescope "$@" --seconds 0 --state {tmp_path}/state'
    called.write_text(f'#!/bin/sh\necho "$(hostname) $*" >> {calls}\nexec {real}\n')
    called.chmod(0o755)
    plans = (CohortPlan((("image", "bad"),), (), waves_of(["second", "first"])),)
    (tmp_path / "rollout.yml").write_text(render_ansible(plans, 60), encoding="utf-8")
    with container(tmp_path, "first") as first, container(tmp_path, "second") as second:
        hosts = {
            name: {
                "ansible_connection": "local",
                "ansible_shell_executable": str(shell),
                "ansible_become": False,
                "ansible_python_interpreter": sys.executable,
            }
            for name, shell in (("first", first), ("second", second))
        }
        (tmp_path / "inventory.json").write_text(json.dumps({"all": {"hosts": hosts}}), encoding="utf-8")
        done = subprocess.run(
            [str(PLAYBOOK), "-i", str(tmp_path / "inventory.json"), "--check", str(tmp_path / "rollout.yml")],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
            env={**os.environ, "ANSIBLE_HOME": str(tmp_path / "ansible"), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"},
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert calls.read_text().splitlines() == ["second apply --window 0", "first apply --window 0"]
    assert not (tmp_path / "state").exists(), "a dry run keeps no journal"
    assert done.stdout.index("image bad: canary") < done.stdout.index("image bad: up to 100%")
