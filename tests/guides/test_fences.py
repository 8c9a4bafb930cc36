# SPDX-License-Identifier: Apache-2.0
"""Every command of the README, the tutorial and the guides does what the document says, as it stands there, in a clean clone."""

from __future__ import annotations

import os

import pytest
from tools.fences import Fence, documents, fences_of
from tools.run_fences import Outcome, run

FENCES = [fence for document in documents() for fence in fences_of(document)]


@pytest.fixture(scope="session")
def outcomes() -> dict[str, Outcome]:
    if os.geteuid() != 0:
        if "guides" in os.environ.get("ZOMBIESCOPE_REQUIRE", ""):
            pytest.fail("the documents' commands are run as root")
        pytest.skip("the documents' commands are run as root")
    return {outcome.fence.name: outcome for outcome in run(documents())}


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: fence.name)
def test_a_command_does_what_the_document_says(fence: Fence, outcomes: dict[str, Outcome]) -> None:
    if fence.never:
        print(f"{fence.name}: not run: {fence.never}")
    elif fence.tier:
        print(f"{fence.name}: run in the tier {fence.tier}")
    else:
        outcome = outcomes[fence.name]
        assert outcome.trouble == "", f"{fence.script}\n{outcome.said[-4000:]}"
