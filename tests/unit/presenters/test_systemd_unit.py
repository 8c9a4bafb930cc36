# SPDX-License-Identifier: Apache-2.0
"""The agent's unit agrees with what the agent does."""

from __future__ import annotations

import re

from zombiescope.presenters.systemd_unit import render_unit
from zombiescope.web.server import APART_MEMORY, MOST_CONNECTIONS

AGENT_BYTES = 40 << 20
"""Its own budget."""


def value(name: str) -> str:
    found = re.findall(rf"^{name}=(.*)$", render_unit("/usr/bin/zombiescope"), re.MULTILINE)
    assert len(found) == 1, name
    return str(found[0])


def test_a_child_that_is_killed_for_its_memory_does_not_end_the_agent() -> None:
    assert value("OOMPolicy") == "continue"


def test_an_answer_of_a_child_fits_beside_the_agent() -> None:
    assert int(value("MemoryHigh").removesuffix("M")) << 20 >= AGENT_BYTES + APART_MEMORY
    assert int(value("LimitNOFILE")) >= 4 * MOST_CONNECTIONS


def test_its_socket_has_a_folder() -> None:
    assert value("RuntimeDirectory") == "zombiescope-agent"
