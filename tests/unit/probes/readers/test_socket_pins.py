# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.build import V1, V2, ScriptedHost

from zombiescope.facts.gap import Gap
from zombiescope.probes.readers.holders import read_socket_pins


def test_v1_does_not_tell_where_a_socket_was_made() -> None:
    found = read_socket_pins(ScriptedHost({}), V1)
    assert isinstance(found, Gap) and "v1" in found.reason and found.hint


def test_a_recording_cannot_be_asked() -> None:
    assert isinstance(read_socket_pins(ScriptedHost({b"/proc/1/stat": b""}, is_live=False), V2), Gap)
