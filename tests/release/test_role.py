# SPDX-License-Identifier: Apache-2.0
"""The Ansible role against two hosts, each in namespaces of its own: one takes the package, the other the one file.

Installed, the same again without a change, configured, removed, nothing left; as the install page tells it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.release.conftest import REPOSITORY, one
from tests.release.page import fences
from tests.release.roots import Root, unpacked
from tools.release.debian import make_deb
from tools.release.origin import version

pytestmark = pytest.mark.on_demand
BIN = Path(sys.executable).parent
LEFT_BY_ANSIBLE = ("root/.ansible", "tmp/")


class Hosts(NamedTuple):
    folder: Path
    roots: dict[str, Root]
    """`debian` is what it is; `other` says that it is of a family without such packages."""


@contextmanager
def host(root: Root, name: str, folder: Path) -> Iterator[dict[str, object]]:
    """Namespaces with a root of their own, and a shell by which Ansible enters it."""
    ready = folder / f"{name}.ready"
    shared = folder / f"shared-{name}"  # Ansible's local connection writes where its modules are then run
    for place in (shared, root.folder / str(shared).lstrip("/")):
        place.mkdir(parents=True)
    mounts = "; ".join(f"mount --rbind {each} {root.folder}{each}" for each in ("/sys", "/dev", str(shared)))
    inside = f"hostname {name}; {mounts}; mount -t proc proc {root.folder}/proc; echo ready > {ready}; exec sleep 3600"
    command = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    with subprocess.Popen([*command, "sh", "-ec", inside]) as process:
        try:
            while not ready.exists():
                assert process.poll() is None, "the namespaces could not be made"
            (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            enter = folder / f"enter-{name}"
            way = f"nsenter -t {child} -u -m -p -- chroot {root.folder}"
            enter.write_text(
                f'#!/bin/sh\nexec {way} /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root /bin/sh "$@"\n'
            )
            enter.chmod(0o755)
            yield {
                "ansible_connection": "local",
                "ansible_shell_executable": str(enter),
                "ansible_become": False,
                "ansible_python_interpreter": "/usr/bin/python3",
                "ansible_remote_tmp": str(shared),
            }
        finally:
            process.kill()


@pytest.fixture(scope="module")
def hosts(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    one(release, "zombiescope-x86_64")
    folder = tmp_path_factory.mktemp("fleet")
    roots = {
        name: unpacked(suite, folder / name) for name, suite in (("debian", "python3.11"), ("other", "python3.13"))
    }
    (roots["other"].folder / "etc/os-release").unlink()
    (roots["other"].folder / "etc/os-release").write_text("ID=other\nNAME=Other\n")
    (roots["other"].folder / "etc/debian_version").unlink()
    with ExitStack() as stack:
        listed = {name: stack.enter_context(host(root, name, folder)) for name, root in roots.items()}
        (folder / "inventory.yml").write_text(json.dumps({"all": {"hosts": listed}}))
        (folder / "dist").mkdir()
        (folder / "dist/release").symlink_to(release)
        (folder / "deploy").symlink_to(REPOSITORY / "deploy")
        yield Hosts(folder, roots)


def play(hosts: Hosts, script: str, *more: str) -> dict[str, dict[str, int]]:
    """The recap by host."""
    surroundings = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"}
    surroundings |= {
        "ANSIBLE_HOME": str(hosts.folder / "ansible"),
        "ANSIBLE_ROLES_PATH": str(REPOSITORY / "deploy/ansible/roles"),
    }
    done = subprocess.run(
        ["bash", "-eu", "-c", " ".join([script, *more])],
        cwd=hosts.folder,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    rows = re.findall(r"^(\w+) +: (.*)$", done.stdout, re.MULTILINE)
    return {name: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", row)} for name, row in rows}


def test_installed_again_configured_and_removed(hosts: Hosts) -> None:
    (install,), (remove,) = fences("fleet"), fences("fleet-removal")
    before = {name: root.files() for name, root in hosts.roots.items()}
    checked = play(hosts, install.script, "--check")
    assert all(row["failed"] == 0 for row in checked.values())
    assert {name: root.files() for name, root in hosts.roots.items()} == before, "check mode changes nothing"
    first = play(hosts, install.script)
    assert first["debian"]["changed"] and first["other"]["changed"]
    for name, place in (("debian", "/usr/bin/zombiescope"), ("other", "/usr/local/bin/zombiescope")):
        said = hosts.roots[name].entered(f"{place} --version && {place} scan").said
        assert said.startswith(f"zombiescope, version {version()}"), said
    again = play(hosts, install.script)
    assert [row["changed"] for row in again.values()] == [0, 0], "the same again changes nothing"
    (hosts.folder / "newer").mkdir()
    newer = one(hosts.folder / "dist/release", "zombiescope-x86_64")
    make_deb(newer, "x86_64", hosts.folder / "newer", revision=2, packing="none")
    shutil.copy2(newer, hosts.folder / "newer")
    upgraded = play(hosts, install.script.replace("/dist/release", "/newer"))
    assert (upgraded["debian"]["changed"] > 0, upgraded["other"]["changed"]) == (True, 0), "only the package is newer"
    said = hosts.roots["debian"].entered("dpkg-query -W -f '${Version}' zombiescope").said
    assert said == f"{version()}-2"
    settings = """-e '{"zombiescope_settings": {"agent": {"retention_days": 7, "listen": "127.0.0.1:9753"}}}'"""
    play(hosts, install.script.replace("/dist/release", "/newer"), settings)
    for root in hosts.roots.values():
        assert "retention_days = 7" in root.entered("zombiescope agent --show-config").said
        (root.folder / "var/lib/zombiescope").mkdir()
    play(hosts, remove.script)
    for name, root in hosts.roots.items():
        left = {
            path
            for path in root.files() - before[name]
            if not path.startswith(LEFT_BY_ANSIBLE) and "__pycache__" not in path
        }
        assert left == set(), name
    gone = play(hosts, remove.script)
    assert [row["changed"] for row in gone.values()] == [0, 0]


def test_a_folder_that_is_no_release_is_refused(hosts: Hosts, tmp_path: Path) -> None:
    script = fences("fleet")[0].script.replace("$PWD/dist/release", str(tmp_path))
    with pytest.raises(AssertionError, match="holds no deb for x86_64"):
        play(hosts, script)
    shutil.rmtree(hosts.folder / "ansible", ignore_errors=True)
