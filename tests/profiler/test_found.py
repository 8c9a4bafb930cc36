# SPDX-License-Identifier: Apache-2.0
"""What `make fuzz` found: every file that once ended in a traceback is refused with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.profiler.formats.capture_file import decode, read_about
from zombiescope.profiler.stacks.capture import BrokenCapture

FOUND = sorted((Path(__file__).parent / "found").glob("capture-stored-*.bin"))


def test_they_are_kept() -> None:
    assert len(FOUND) == 2


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.stem)
def test_a_damaged_heading_is_refused(file: Path) -> None:
    raw = file.read_bytes()
    for read in (read_about, decode):
        with pytest.raises(BrokenCapture, match="damaged"):
            read(raw)
