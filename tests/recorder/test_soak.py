# SPDX-License-Identifier: Apache-2.0
"""Three minutes of a recorder that is killed, left without room, given another time and a budget that it cannot keep: `make
test-recorder`; an hour of it on demand (`make test-recorder-hour`). Wall time, hardly any CPU: the load makes way for everybody."""

from __future__ import annotations

import os
import random
from itertools import pairwise
from pathlib import Path

import pytest
from tests.recorder import soak

pytestmark = pytest.mark.kernel
MINUTES = float(os.environ.get("ZOMBIESCOPE_SOAK_MINUTES", "3"))


def need(reason: str) -> None:
    if "recorder" in os.environ.get("ZOMBIESCOPE_REQUIRE", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason)


def test_no_gap_is_left_unsaid_and_the_ring_stays_within_its_bounds(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        need("needs root: a file system of its own, and samples of every core")
    if soak.build_library(tmp_path) is None:
        need("needs a C compiler: the machine's own clock is everybody's, the recorder gets one of its own")
    seed = random.randrange(1 << 30)
    segment = 5.0 if MINUTES < 10 else 20.0
    found, ring = soak.run(tmp_path, MINUTES, segment, random.Random(seed))
    dear = next(note for note in found.notes if note.what == "rate")
    print(
        f"seed {seed}: {found.starts} starts, {found.killed} kills, {found.filled} times full, clock set {found.jumped} times; "
        f"{ring['captures']} captures, most {found.most_bytes:,} of {soak.RING_BYTES:,} bytes; {dear.words}"
    )
    for hole in ring["holes"]:
        print(f"  {hole['seconds']} s: {hole['why']}")
    assert found.most_bytes <= soak.RING_BYTES, "with what is being written, at every look"
    stretches = ring["samples_on_steady_clock"]
    said = [hole["on_steady_clock"] for hole in ring["holes"]]
    for (_, end), (begin, _) in pairwise(stretches):
        assert any(a <= end + 0.5 and b >= begin - 0.5 for a, b in said), (
            f"{begin - end:.1f} s are missing, and not said"
        )
    assert not [why for why in (*found.reasons, *(hole["why"] for hole in ring["holes"])) if "not known" in why]
    assert found.stored() > ring["captures"], "the oldest made room"
    assert min(found.killed, found.filled, found.jumped) >= 1
    noted = [note.what for note in found.notes]
    assert noted.count("began") >= 1 + found.killed
    assert noted.count("full") >= found.filled
    assert noted.count("clock") >= found.jumped
    assert len(found.reasons) == found.killed + found.filled, "each had left a hole"
    for why in ("the recorder was killed", "the disk was full"):
        assert any(why in said for said in found.reasons), found.reasons
    rates = ring["rate_hz"]
    assert max(rates) == soak.RATE_HZ
    assert 5 <= rates[-1] < soak.RATE_HZ, "it costs more than it may, whatever the machine: it takes fewer samples"
