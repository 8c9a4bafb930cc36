# SPDX-License-Identifier: Apache-2.0
"""What an unprivileged neighbour, a stranger's file or a bad moment tries against the installed command.

Each test is an attack and says in one sentence what the attacker wants (`@pytest.mark.attack`). Nothing is run twice here.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hostile.neighbour import Neighbour

LEAST_ATTACKS = 25
_ran: dict[str, str] = {}


_LONGEST_PLACE = 24
"""The path of a socket has at most 107 bytes, names of tests included."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """A place of our own, short, that anybody may pass: another pytest closes the one that all share. And the usual umask."""
    os.umask(0o022)
    if getattr(config.option, "basetemp", None) is None:
        usual = tempfile.gettempdir()
        place = Path(tempfile.mkdtemp(prefix="zh-", dir=usual if len(usual) <= _LONGEST_PLACE else "/tmp"))
        place.chmod(0o711)
        config.option.basetemp = str(place / "t")
        config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))


def not_here(reason: str) -> None:
    if "hostile" in os.environ.get("ZOMBIESCOPE_REQUIRE", "").split(","):
        pytest.fail(f"required, but {reason}")
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def _as_root() -> None:
    if os.geteuid() != 0:
        not_here("these tests need root, to act as somebody else")


@pytest.fixture
def neighbour(tmp_path: Path) -> Iterator[Neighbour]:
    """Somebody without any privilege, with a folder of their own; whatever they started is ended."""
    somebody = Neighbour(tmp_path / "neighbour")
    try:
        yield somebody
    finally:
        somebody.end_all()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/hostile" in item.path.as_posix() and item.get_closest_marker("attack") is None:
            raise pytest.UsageError(f"{item.nodeid} does not say what the attacker wants: @pytest.mark.attack(...)")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "tests/hostile" in report.nodeid and (report.when == "call" or report.outcome != "passed"):
        _ran[report.nodeid] = report.outcome


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    repelled = sum(outcome == "passed" for outcome in _ran.values())
    terminalreporter.write_line(f"hostile: {repelled} of {len(_ran)} attacks repelled")


def pytest_sessionfinish(session: pytest.Session) -> None:
    whole_tier = any(str(argument).rstrip("/").endswith("tests/hostile") for argument in session.config.args)
    if whole_tier and len(_ran) < LEAST_ATTACKS and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print(f"hostile: only {len(_ran)} attacks, at least {LEAST_ATTACKS} are promised")
