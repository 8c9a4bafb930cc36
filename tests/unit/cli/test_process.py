# SPDX-License-Identifier: Apache-2.0
"""The command as a process: pipes, full disks, signals, terminals."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.build import Cgroup, Use, v1_machine, write_machine
from tests.nobody import as_nobody, document_of
from tests.product import GIVEN, PRODUCT

from zombiescope.cli.main import main

COMMAND = list(PRODUCT)
PLAIN = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    groups = {
        b"/system.slice/agent-%d.service" % number: Cgroup(dead=Use(file=1 << 22), zombies=200) for number in range(7)
    }
    folder = tmp_path_factory.mktemp("machine")
    return os.fsdecode(write_machine(folder, v1_machine({b"/system.slice": Cgroup(), **groups})))


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env={**PLAIN, **environment}, timeout=60, check=False
    )


def run_to(output: int | None, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [*COMMAND, *arguments], stdout=output, stderr=subprocess.PIPE, text=True, env=PLAIN, timeout=60, check=False
    )
    return done.returncode, done.stderr


def test_one_document_and_no_noise(root: str) -> None:
    done = run("--json", "--root", root)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["memcg"]["zombies"] == 1400


@pytest.mark.parametrize("command", ["scan", "doctor"])
def test_piped_text_has_no_colour_no_noise_and_no_trailing_blanks(root: str, command: str) -> None:
    done = run(command, "--root", root)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert [line for line in done.stdout.split("\n") if line != line.rstrip()] == []
    assert done.stdout.startswith("zombies: 1,400 dead memory cgroups are still in the kernel")
    assert not done.stdout.endswith("\n\n")


@pytest.mark.parametrize("columns", ["20", "40", "80", "1", "0", "x"])
@pytest.mark.parametrize("command", ["scan", "doctor"])
def test_any_width_keeps_the_first_line_and_every_figure(root: str, columns: str, command: str) -> None:
    done = run(command, "--root", root, COLUMNS=columns)
    assert (done.returncode, done.stderr) == (0, "")
    first = run(command, "--root", root).stdout.split("\n")[0]
    assert done.stdout.split("\n")[0] == first
    if columns not in ("1", "0"):
        assert "…" not in done.stdout


def test_a_full_disk_is_a_clear_error(root: str) -> None:
    for arguments in (["--json", "--root", root], ["scan", "--root", root], ["--help"], ["completion", "bash"]):
        with open("/dev/full", "wb") as full:
            code, err = run_to(full.fileno(), *arguments)
        assert code == 3, (arguments, err)
        assert err.startswith("error: cannot write the answer (standard output)\n  why: no space left on device\n")
        assert "Traceback" not in err
        assert "Exception ignored" not in err


def test_a_reader_that_goes_away_is_no_error(root: str) -> None:
    for arguments in (["--json", "--root", root], ["scan", "--root", root], ["--help"]):
        reading, writing = os.pipe()
        os.close(reading)
        code, err = run_to(writing, *arguments)
        os.close(writing)
        assert (code, err) == (141, ""), arguments


TO_STANDARD_OUTPUT = ["scan --json --root", "record - --seconds 0 --root"]
if not GIVEN:  # the one file exports no profiles: tests/onefile asks what it says
    TO_STANDARD_OUTPUT.append("profile export --form collapsed")


@pytest.mark.parametrize("form", TO_STANDARD_OUTPUT)
def test_a_closed_standard_output_is_a_clear_error(root: str, tmp_path: Path, form: str) -> None:
    stacks = tmp_path / "stacks.folded"
    stacks.write_text("main;work 3\n")
    shell = ["sh", "-c", '"$@" >&-', "sh", *COMMAND, *form.split(), str(stacks) if "profile" in form else root]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 3, done.stderr
    assert "bad file descriptor" in done.stderr


def test_ctrl_c_while_it_looks() -> None:
    before = signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # a suite in the background ignores it, and children inherit that
    try:
        child = subprocess.Popen(
            [*COMMAND, "doctor", "--seconds", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)
    wait_until_it_sleeps(child.pid)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err.strip()) == (130, "", "interrupted")


def test_ctrl_c_while_it_is_loaded(tmp_path: Path) -> None:
    """No traceback of whatever module was on its way."""
    (tmp_path / "click.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        child = subprocess.Popen(
            [sys.executable, "-m", "zombiescope", "scan"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**PLAIN, "PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, before)
    assert child.stdout is not None
    assert child.stdout.readline() == "loading\n"
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[1] == ""
    assert child.returncode == -signal.SIGINT


def wait_until_it_sleeps(pid: int) -> None:
    """The doctor's waits are the only naps it takes: a system call number of its own says when it is in one."""
    for _ in range(3000):
        try:
            text = Path(f"/proc/{pid}/wchan").read_text()
        except OSError:
            text = ""
        if "nanosleep" in text:
            return
        signal.sigtimedwait([], 0.01)
    pytest.fail("it never waited")


def on_a_terminal(*arguments: str, **environment: str) -> str:
    master, slave = pty.openpty()
    try:
        child = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**PLAIN, "TERM": "xterm", **environment},
        )
        os.close(slave)
        slave = -1
        output = b""
        while True:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # the other side was closed
                break
            if not chunk:
                break
            output += chunk
        assert child.wait(timeout=60) == 0
    finally:
        os.close(master)
        if slave >= 0:
            os.close(slave)
    return output.decode()


def test_colour_on_a_terminal_and_none_where_it_is_not_wanted(root: str) -> None:
    assert "\x1b[33m" in on_a_terminal("scan", "--root", root) or "\x1b[1;31m" in on_a_terminal("scan", "--root", root)
    plain = on_a_terminal("scan", "--root", root, NO_COLOR="1")
    assert "\x1b[33m" not in plain
    assert "\x1b[1;31m" not in plain


def test_an_ascii_terminal_gets_an_answer(root: str) -> None:
    done = run("scan", "--root", root, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_root_that_may_not_be_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, hidden = Path(name) / "closed", Path(name) / "closed" / "hidden"
        (folder / "proc").mkdir(parents=True)
        hidden.mkdir()
        Path(name).chmod(0o755)
        main(["scan", "--json", "--root", name])
        folder.chmod(0)
        closed = as_nobody(lambda: main(["scan", "--json", "--root", str(folder)]))
        behind = as_nobody(lambda: main(["scan", "--json", "--root", str(hidden)]))
        folder.chmod(0o700)
    code, out, err = closed
    assert (code, err) == (3, "")
    reasons = {gap["fact"]: gap["reason"] for gap in document_of(out)["gaps"]}
    assert "permission denied" in reasons["host.name"]
    assert behind[:2] == (2, "")
    assert "why: permission denied" in behind[2]
