# SPDX-License-Identifier: Apache-2.0
"""The agent's unit agrees with what the agent does."""

from __future__ import annotations

import re

import pytest

from zombiescope.presenters.systemd_unit import render_unit
from zombiescope.web.server import APART_MEMORY, MOST_CONNECTIONS

AGENT_BYTES = 40 << 20
"""Its own budget."""


def value(name: str, unit: str = "agent") -> str:
    found = re.findall(rf"^{name}=(.*)$", render_unit("/usr/bin/zombiescope", unit), re.MULTILINE)
    assert len(found) == 1, name
    return str(found[0])


def test_a_child_that_is_killed_for_its_memory_does_not_end_the_agent() -> None:
    assert value("OOMPolicy") == "continue"


def test_an_answer_of_a_child_fits_beside_the_agent() -> None:
    assert int(value("MemoryHigh").removesuffix("M")) << 20 >= AGENT_BYTES + APART_MEMORY
    assert int(value("LimitNOFILE")) >= 4 * MOST_CONNECTIONS


def test_its_socket_has_a_folder() -> None:
    assert value("RuntimeDirectory") == "zombiescope-agent"


@pytest.mark.parametrize("unit", ["agent", "recorder"])
def test_the_kernels_functions_have_names(unit: str) -> None:
    """systemd.exec: with ProtectKernelTunables= `/proc/kallsyms` is inaccessible to all processes of the unit."""
    text = render_unit("/usr/bin/zombiescope", unit)
    assert "CAP_SYSLOG" in value("CapabilityBoundingSet", unit)
    assert not re.search(r"^(ProtectKernelTunables|ProtectKernelLogs|ProcSubset)=", text, re.MULTILINE)
    assert {"/proc/sys", "/sys", "-/proc/irq", "-/proc/sysrq-trigger"} <= set(value("ReadOnlyPaths", unit).split())
    assert "-/proc/kcore" in value("InaccessiblePaths", unit)
