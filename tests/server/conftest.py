# SPDX-License-Identifier: Apache-2.0
"""The server tier needs root and Debian's prometheus; a skip says so, and is a failure where the tier is required."""

from __future__ import annotations

import os
import shutil

import pytest

WHY = (
    "needs root"
    if os.geteuid() != 0
    else ""
    if shutil.which("prometheus") and shutil.which("promtool")
    else "needs Debian's prometheus package"
)


@pytest.fixture(autouse=True)
def server_tier() -> None:
    if not WHY:
        return
    if "server" in os.environ.get("ZOMBIESCOPE_REQUIRE", ""):
        pytest.fail(WHY)
    pytest.skip(WHY)
