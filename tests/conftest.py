# SPDX-License-Identifier: Apache-2.0
"""One profile for all laws: no deadline, for the machine is shared, and no files left behind. And golden files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("house", deadline=None, database=None)
settings.load_profile("house")

GOLDEN = Path(__file__).resolve().parent / "golden"


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
