# SPDX-License-Identifier: Apache-2.0
"""What failed is run once more and named; what is pure, generated or an attack is not."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest
from tests.run_again import ROOT, asks_the_machine

CONFTEST = """
from pathlib import Path
from tests import run_again

run_again.RETRIED = Path("build/retried")

def pytest_runtest_protocol(item, nextitem):
    return run_again.run_and_again(item, nextitem, lambda: "a neighbour did it")
"""
TESTS = """
from pathlib import Path

def test_well(tmp_path): assert not list(tmp_path.iterdir())

def test_once(tmp_path):
    (tmp_path / "left").touch()
    been = Path("been").exists()
    Path("been").touch()
    assert been

def test_always(tmp_path): assert False, "what it said"
"""


def test_a_failure_is_tried_once_more_and_named(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "test_it.py::test_once failed and was run again; a neighbour did it" in done.stdout
    assert (tmp_path / "build" / "retried").read_text().split() == ["test_it.py::test_once", "test_it.py::test_always"]


def item(place: str, *imports: ModuleType, is_law: bool = False) -> pytest.Item:
    names = {module.__name__: module for module in imports}
    test = SimpleNamespace(is_hypothesis_test=is_law)
    return cast("pytest.Item", SimpleNamespace(path=ROOT / "tests" / place, module=SimpleNamespace(**names), obj=test))


def test_only_what_asks_the_machine_is_tried_again() -> None:
    assert asks_the_machine(item("server/test_agent.py"))
    assert asks_the_machine(item("unit/cli/test_process.py", subprocess))
    assert asks_the_machine(item("unit/gathering/test_nics.py", socket))
    assert not asks_the_machine(item("unit/analysis/test_slopes.py"))
    assert not asks_the_machine(item("unit/cli/test_process.py", subprocess, is_law=True))
    assert not asks_the_machine(item("hostile/test_neighbour.py", subprocess))
    assert not asks_the_machine(cast("pytest.Item", SimpleNamespace(path=Path("/elsewhere/test_a.py"), obj=None)))
