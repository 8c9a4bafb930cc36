# SPDX-License-Identifier: Apache-2.0
"""One profile for all laws: no deadline, for the machine is shared, and no files left behind."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("house", deadline=None, database=None)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the expected outputs; read the difference")
