# SPDX-License-Identifier: Apache-2.0
"""Two lines of targets at once: readable, failing when either fails, and leaving nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPES = """
front: ; @echo front line; test -z "$$SLOW" || exec sleep 600
wrong: ; @echo wrong; false
behind: ; @printf 'first words\\n..vm: half way\\n'; until test -e go; do sleep 0.05; done; echo last words
broken: ; @echo torn; false
stuck: ; @trap '' INT; echo $$$$ > began; while :; do sleep 0.05; done
clean-up: ; @trap 'echo tidy > tidied; exit 3' INT; echo $$$$ > began; while :; do sleep 0.05; done
let-go: ; @touch go
test-kernel: ; @mkdir -p build; echo tests/a.py::test_b >> build/retried
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    Path("Makefile").write_text(RECIPES)


def begin(*targets: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tools.side_by_side", *targets]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=surroundings)


def eventually(is_so: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + 60
    while not is_so() and time.monotonic() < give_up:
        time.sleep(0.02)
    return is_so()


def is_gone(place: str) -> bool:
    """The process that wrote its number there."""
    return not Path("/proc", Path(place).read_text().strip()).exists()


def test_what_is_behind_is_shown_in_one_piece_and_its_progress_at_once() -> None:
    out, _ = (done := begin("behind", "--", "front", "let-go")).communicate(timeout=60)
    assert done.returncode == 0, out
    lines = out.splitlines()
    assert lines.count("vm: half way") == 1, "at once, without the dots before it"
    piece = lines.index("first words")
    assert lines[piece : piece + 3] == ["first words", "..vm: half way", "last words"]
    assert lines[piece - 1].startswith("== behind:") and lines.index("front line") < piece


def test_one_line_behind_can_have_several_targets_one_after_the_other() -> None:
    Path("go").touch()
    out, _ = (done := begin("behind+test-kernel", "--", "front")).communicate(timeout=60)
    assert done.returncode == 0, out
    assert "== behind+test-kernel:" in out
    assert Path("build/retried").read_text() == "tests/a.py::test_b\n"
    (done := begin("broken+test-kernel", "--", "front")).communicate(timeout=60)
    assert done.returncode == 1


@pytest.mark.parametrize("line", ["broken -- front", "behind -- let-go wrong", "broken behind -- let-go"])
def test_either_failure_fails(line: str) -> None:
    out, _ = (done := begin(*line.split())).communicate(timeout=60)
    assert done.returncode == 1, out
    assert "torn" in out or "wrong" in out, "what it said is shown"


def test_a_failure_in_front_ends_what_is_behind() -> None:
    out, _ = (done := begin("clean-up", "--", "front", "wrong")).communicate(timeout=60)
    assert done.returncode == 1 and "wrong failed" in out
    assert eventually(lambda: not Path("began").exists() or is_gone("began"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_both_and_lets_them_clean_up(number: signal.Signals) -> None:
    running = begin("clean-up", "--", "front", SLOW="1")
    assert eventually(Path("began").exists)
    running.send_signal(number)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 130 and "nothing of it runs any more" in out
    # make may end before its shell has tidied up, and whoever adopts the shell may be slow to bury it.
    assert eventually(lambda: Path("tidied").exists() and is_gone("began"))


INTERRUPTED_START = """
import os, signal, sys, time
from pathlib import Path
from tools import side_by_side as beside
start = beside.make
def interrupted(*arguments, **options):
    process = start(*arguments, **options)
    while not Path("began").exists():
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGTERM)
    return process
beside.make = interrupted
sys.exit(beside.main(sys.argv[1:]))
"""


def test_a_signal_while_a_line_starts_is_heard_once_somebody_can_end_it() -> None:
    command = [sys.executable, "-c", INTERRUPTED_START, "clean-up", "--", "front"]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "SLOW": "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=surroundings, timeout=100)
    assert done.returncode == 130, done
    assert eventually(lambda: Path("tidied").exists() and is_gone("began"))


def test_killed_itself_it_leaves_nothing_running() -> None:
    running = begin("stuck", "--", "front", SLOW="1")
    assert eventually(Path("began").exists)
    assert eventually(lambda: bool(Path("began").read_text()))
    running.kill()
    running.wait()
    assert eventually(lambda: is_gone("began"))


def test_its_last_words_are_what_each_took_and_what_was_run_again() -> None:
    began = str(time.time() - 500)
    out, _ = (done := begin("behind", "--", "let-go", "--", "test-kernel", ZOMBIESCOPE_BEGAN=began)).communicate(
        timeout=60
    )
    assert done.returncode == 0, out
    table = out[out.index("tier ") :].splitlines()
    assert [line.split("  ")[0].strip() or line.split()[0] for line in table[1:7]] == [
        "installs", "machines and beside", "let-go", "behind", "test-kernel", "in all",
    ]  # fmt: skip
    assert table[1].endswith("180  over"), "said, and fails nothing"
    assert table[7:] == ["retried: 1", "  tests/a.py::test_b"]


def test_what_comes_after_is_made_one_by_one_and_its_failure_fails() -> None:
    out, _ = (done := begin("--", "--", "wrong", "front")).communicate(timeout=60)
    assert done.returncode == 1
    assert out.index("wrong") < out.index("front line") < out.index("in all")
    assert out.endswith("retried: 0\n")


def test_busy_processes_end_with_the_command() -> None:
    look = "import pathlib,sys; sys.exit(3 if 'while True: pass' in ' '.join(p.read_text() for p in "
    look += "pathlib.Path('/proc').glob('[0-9]*/cmdline') if p.parent.joinpath('stat').read_text().split()[3] == "
    look += "str(__import__('os').getppid())) else 4)"
    program = ROOT / "tools" / "beside_busy.py"
    done = subprocess.run([sys.executable, program, "2", sys.executable, "-c", look], check=False, capture_output=True)
    assert done.returncode == 3, done
    assert b"2 busy processes ran beside it and are ended" in done.stdout
