# SPDX-License-Identifier: Apache-2.0
"""A command that ended with a report of a bug fails its test, whatever else the test looked at."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest

from zombiescope.cli import main as cli_main


@pytest.fixture(autouse=True)
def _no_bug_unseen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.node.get_closest_marker("seeds_a_bug") is not None:
        yield
        return
    report, bugs = cli_main._report_bug, list[str]()

    def note(*, keep: bool) -> int:
        bugs.append(traceback.format_exc())
        return report(keep=keep)

    monkeypatch.setattr(cli_main, "_report_bug", note)
    yield
    assert not bugs, "\n".join(bugs)
