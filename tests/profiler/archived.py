# SPDX-License-Identifier: Apache-2.0
"""A small fleet for tests: 24 nodes in four zones, from two captures of a planted ring; in zone c one function takes more."""

from __future__ import annotations

import numpy as np
from tests.profiler.many_nodes import Seed, node_capture, seed_of
from tests.profiler.planted import usual_capture

from zombiescope.profiler.archive.places import Place, ship

NODES, SAMPLES = 24, 1500
PLANTED = "mem_cgroup_css_rstat_flush"
FILE = "[kernel]"
MORE = 0.08


def seeds() -> list[Seed]:
    return [seed_of(usual_capture(np.random.default_rng(number), number)) for number in range(2)]


def ship_fleet(place: Place, *, more: float = MORE, nodes: int = NODES, again: bool = False) -> tuple[str, int]:
    """The function that was planted, and how many captures were written."""
    real = seeds()
    written = 0
    for number in range(nodes):
        capture, labels = node_capture(
            real[number // 4 % 2], number, SAMPLES, ((PLANTED, FILE), more) if more else None
        )
        shipped = ship(place, capture, f"part-{number:02}", labels)
        assert not again or shipped.bytes_written is None
        written += shipped.bytes_written is not None
    return PLANTED, written
