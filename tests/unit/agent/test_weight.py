# SPDX-License-Identifier: Apache-2.0
"""What the agent loads to begin with: not what only its children need. A module put into another one brought 8 MB along once."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASKED = "import sys, zombiescope.agent.loop; print(*sys.modules)"


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "name",
    [
        "rich",
        "zipfile",
        "numpy",
        "zombiescope.analysis.autopsy",
        "zombiescope.diagnosis.audit",
        "zombiescope.host.cluster_api",
        "zombiescope.host.images",
        "zombiescope.pipeline.autopsy",
        "zombiescope.pipeline.page_look",
        "zombiescope.presenters.doctor_report",
        "zombiescope.presenters.layout",
        "zombiescope.profiler.stacks.capture",
        "zombiescope.remedies",
        "zombiescope.web.one_file",
        "zombiescope.web.standing",
    ],
)
def test_what_its_children_draw_and_judge_is_left_to_them(name: str, loaded: set[str]) -> None:
    assert "zombiescope.agent.loop" in loaded
    assert name not in loaded
