# SPDX-License-Identifier: Apache-2.0
"""The one-file tier needs root and the file that `make onefile-x86_64` builds; a skip says so, and fails where it is required."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest
from tests.product import GIVEN

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(GIVEN).resolve() if GIVEN else ROOT / "dist" / f"zombiescope-{platform.machine()}"


def _why_not() -> str:
    if os.geteuid() != 0:
        return "needs root"
    return "" if FILE.exists() else f"needs {FILE} (try: make onefile ARCH={platform.machine()})"


@pytest.fixture(scope="session")
def one_file() -> Path:
    if why := _why_not():
        (pytest.fail if "onefile" in os.environ.get("ZOMBIESCOPE_REQUIRE", "") else pytest.skip)(why)
    return FILE
