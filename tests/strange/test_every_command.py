# SPDX-License-Identifier: Apache-2.0
"""Every reading command on every strange host: it answers, names what it could not read, and ends with a code of the contract."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.strange.answers import COMMANDS, ELSEWHERE, judge, words_of
from tests.strange.hosts import HOSTS, StrangeHost

from zombiescope.cli.main import COMMANDS as CATALOGUE

INSTALLED = Path(sys.executable).parent / "zombiescope"
PATIENCE_SECONDS = 300
PAIRS = [(host, command) for host in HOSTS for command in COMMANDS if host.is_whole or command in host.said]


def test_no_command_is_forgotten() -> None:
    assert {command.split()[0] for command in COMMANDS} | ELSEWHERE.keys() == CATALOGUE.keys()


def not_here(reason: str) -> None:
    if "strange" in os.environ.get("ZOMBIESCOPE_REQUIRE", "").split(","):
        pytest.fail(f"required, but {reason}")
    pytest.skip(reason)


def run(host: StrangeHost, words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    if host.prefix and os.geteuid() != 0:
        not_here("covering a file system needs root")
    if host.missing:
        not_here(f"{host.missing} is not installed (try: tools/install-packages)")
    # Into files: gVisor loses what a program writes beyond 64 KiB into a pipe of its host.
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        done = subprocess.run(
            [*host.prefix, str(INSTALLED), *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            check=False,
            timeout=PATIENCE_SECONDS,
            env={**os.environ, "HOME": str(folder), "TMPDIR": str(folder)},
        )
    said = [(folder / name).read_text(errors="replace") for name in ("out", "err")]
    return subprocess.CompletedProcess(done.args, done.returncode, *said)


@pytest.mark.parametrize(
    ("host", "command"), PAIRS, ids=lambda each: each.name if isinstance(each, StrangeHost) else each
)
def test_it_answers_and_names_the_gap(host: StrangeHost, command: str, tmp_path: Path) -> None:
    said = judge(command, run(host, words_of(command, tmp_path), tmp_path))
    assert host.said.get(command, "").lower() in said.lower(), said[-3000:]


@pytest.mark.parametrize("host", [host for host in HOSTS if host.is_whole], ids=lambda host: host.name)
def test_the_agent_serves_what_it_can_or_says_why_not(host: StrangeHost, tmp_path: Path) -> None:
    metrics = tmp_path / "zombiescope.prom"
    # Once it has written what it knows it is told to stop, inside its own namespace.
    wait = f"while [ ! -s {metrics} ] && kill -0 $!; do sleep 0.2; done; kill $!; wait $!"
    script = f'"$0" agent --state "" --listen "" --textfile {metrics} & {wait}'
    within = host._replace(prefix=(*host.prefix, "sh", "-c", script))
    done = run(within, [], tmp_path)
    said = done.stdout + done.stderr
    assert done.returncode in {0, 3} and "Traceback" not in said, said
    if done.returncode == 0:
        assert "zombiescope_" in metrics.read_text()
    else:
        assert "why: " in said


_OF_A_ROOT = ("scan", "autopsy", "doctor", "plan", "cores", "audit", "check", "record")


@pytest.mark.parametrize("command", _OF_A_ROOT)
@pytest.mark.parametrize("folders", [("sys",), ("proc",), ("proc", "sys")], ids="+".join)
def test_a_mounted_root_without_proc_or_sys(folders: tuple[str, ...], command: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in folders:
        (root / name).mkdir(parents=True)
    done = run(StrangeHost("a folder", (), {}), [*words_of(command, tmp_path), "--root", str(root)], tmp_path)
    judge(command, done)
    assert done.returncode == 3 or (command, done.returncode) == ("record", 0), done.stdout + done.stderr
    assert "no such file" in (done.stdout + done.stderr).lower() or command in {"audit", "check", "record"}
