# SPDX-License-Identifier: Apache-2.0
"""One profile for all laws: no deadline, for the machine is shared, and no files left behind. Signals as a terminal gives them,
and golden files."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from tests.run_again import asks_the_machine, run_and_again

settings.register_profile("house", deadline=None, database=None)
settings.load_profile("house")

# Whoever is started in the background or by nohup ignores SIGINT or SIGHUP, and hands that on to all that it starts: the commands
# under test keep ignoring what was ignored before them, so a test would wait forever for one to be interrupted.
signal.pthread_sigmask(signal.SIG_SETMASK, ())
for _each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
    if signal.getsignal(_each) is signal.SIG_IGN:
        signal.signal(_each, signal.default_int_handler if _each is signal.SIGINT else signal.SIG_DFL)

GOLDEN = Path(__file__).resolve().parent / "golden"


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    return run_and_again(item, nextitem, str) if asks_the_machine(item) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden; read the difference in review")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with the golden file of that name."""

    def compare(name: str, text: str) -> None:
        place = GOLDEN / name
        if request.config.getoption("--update-golden"):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        assert text == place.read_text(encoding="utf-8"), f"{place} differs: look, then --update-golden"

    return compare
