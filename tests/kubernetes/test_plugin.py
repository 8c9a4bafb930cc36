# SPDX-License-Identifier: Apache-2.0
"""`kubectl zombiescope` against a kubectl that only writes down what it is asked; the story asks a real one."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml
from tests.kubernetes.test_manifests import TOP, said

from zombiescope import __version__

PLUGIN = TOP / "deploy/kubectl/kubectl-zombiescope"
FAKE = r"""#!/bin/sh
printf '%s\n' "$*" >> "$ASKED"
case "$*" in
*"get nodes"*) printf 'n2\t\t\t\nn1\tTrue\t2026-11-18T12:00:00Z\tZombieMemcgAboveLimit: 2,000 \033[31mdead\n' ;;
*"get pods"*n9*) exit 1 ;;
*"get pods"*) echo agent-x ;;
*"exec"*scan*) echo 'zombies: 12 dead memory cgroups are still in the kernel' ; echo more ;;
*"exec"*doctor*) echo 'it is crashy' ;;
*"exec"*record*) [ -z "${BROKEN:-}" ] || { echo broken; exit 3; } ; echo a-bundle ;;
*port-forward*) echo forwarding ;;
esac
"""


class Fake:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked = folder / "asked"
        (folder / "kubectl").write_text(FAKE)
        (folder / "kubectl").chmod(0o755)

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "ASKED": str(self.asked), **more}
        return subprocess.run(
            [str(PLUGIN), *words], check=False, capture_output=True, text=True, env=environment, cwd=self.folder
        )


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def test_nodes_by_their_condition_and_by_asking_where_there_is_none(fake: Fake) -> None:
    lines = fake.run("nodes").stdout.splitlines()
    assert lines[1].split(maxsplit=3)[:3] == ["n1", "True", "2026-11-18T12:00:00Z"]
    assert "\x1b" not in "".join(lines)
    assert lines[2].split()[:3] == ["n2", "not", "told"]
    assert lines[2].endswith("zombies: 12 dead memory cgroups are still in the kernel")
    assert "exec" not in [line for line in fake.asked.read_text().splitlines() if "n1" in line]


def test_ask_asks_all_of_them(fake: Fake) -> None:
    assert "; now zombies: 12" in fake.run("nodes", "--ask").stdout


def test_doctor_hands_its_flags_on(fake: Fake) -> None:
    done = fake.run("-n", "ours", "--context", "east", "doctor", "n1", "--seconds", "2", "--json")
    assert (done.returncode, done.stdout) == (0, "it is crashy\n")
    last = fake.asked.read_text().splitlines()[-1]
    assert last.startswith(
        "--context=east exec --namespace ours agent-x --container agent -- /usr/local/bin/zombiescope doctor"
    )
    assert last.endswith("--seconds 2 --json")


def test_page_forwards_the_port(fake: Fake) -> None:
    done = fake.run("page", "n1", "--port", "8080")
    assert "http://127.0.0.1:8080/" in done.stderr
    assert fake.asked.read_text().splitlines()[-1].endswith("pod/agent-x 8080:9753")


def test_bundle_is_whole_or_not_there(fake: Fake) -> None:
    assert fake.run("bundle", "n1").returncode == 0
    assert (fake.folder / "n1.tar.gz").read_text() == "a-bundle\n"
    again = fake.run("bundle", "n1")
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    assert fake.run("bundle", "n1", "other.tar.gz", BROKEN="yes").returncode == 3
    assert sorted(path.name for path in fake.folder.glob("*.tar.gz*")) == ["n1.tar.gz"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["doctor"], "no node is named"),
        (["doctor", "n9"], "no agent runs there"),
        (["doctor", "n1;rm"], "not a plain name"),
        (["--context", "a b", "nodes"], "not a plain name"),
        (["nodes", "--namespace", "$(id)"], "not a plain name"),
        (["dance"], "no such command"),
        (["nodes", "--loud"], "no such option"),
    ],
)
def test_errors_say_what_and_why(fake: Fake, words: list[str], why: str) -> None:
    done = fake.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert "try: " in done.stderr


def test_the_released_files(tmp_path: Path) -> None:
    import sys  # noqa: PLC0415

    for name in ("one", "two"):
        said(sys.executable, TOP / "tools/make_manifests.py", tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == [
        "kubectl-zombiescope.tar.gz",
        f"zombiescope-{__version__}.tgz",
        "zombiescope-kubernetes.tar.gz",
        "zombiescope.yaml",
    ]
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files)
    told = yaml.safe_load((tmp_path / "one/zombiescope.yaml").read_text())["spec"]
    archive = tmp_path / "one" / told["platforms"][0]["uri"]
    assert told["version"] == f"v{__version__}"
    assert told["platforms"][0]["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as members:
        assert {each["from"] for each in told["platforms"][0]["files"]} == set(members.getnames())
        assert members.getmember("kubectl-zombiescope").mode == 0o755
    helm = Path(sys.executable).with_name("helm")
    assert "DaemonSet" in said(helm, "template", "zombiescope", tmp_path / "one" / f"zombiescope-{__version__}.tgz")
