# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

import pytest
from tests.build import V1, V1_MOUNT, V2, ScriptedHost, Step

from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import SocketCandidates
from zombiescope.probes.readers.holders import read_socket_pins

TCP = b"/memory.kmem.tcp.usage_in_bytes"


def v1(**used: Step | list[Step]) -> ScriptedHost:
    places = {"root": b"", "a": b"/a", "b": b"/a/b", "c": b"/c"}
    return ScriptedHost({V1_MOUNT + places[name] + TCP: value for name, value in used.items()})


def test_buffers_that_no_live_child_accounts_for() -> None:
    found = read_socket_pins(v1(root=b"9000\n", a=b"8000\n", b=b"3000\n", c=b"1000\n"), V1)
    assert isinstance(found, SocketCandidates)
    assert found.tcp_bytes == {b"/a": 5000, b"/a/b": 3000, b"/c": 1000}
    assert found.dead == () and found.unix_count is None
    assert found.gaps and "v1" in found.gaps[0].reason


def test_nothing_in_use_needs_one_read() -> None:
    host = v1(root=b"0\n", a=b"0\n")
    found = read_socket_pins(host, V1)
    assert isinstance(found, SocketCandidates) and found.tcp_bytes == {}
    assert len(host.reads) == 1


def test_a_child_that_vanishes_counts_for_nothing() -> None:
    found = read_socket_pins(v1(root=b"10\n", a=errno.ENODEV), V1)
    assert isinstance(found, SocketCandidates) and found.tcp_bytes == {b"/": 10}


@pytest.mark.parametrize(
    ("host", "reason"),
    [(v1(a=b"0\n"), "does not account sockets"), (v1(root=errno.EACCES), "permission denied")],
)
def test_no_figure_is_a_gap(host: ScriptedHost, reason: str) -> None:
    found = read_socket_pins(host, V1)
    assert isinstance(found, Gap) and reason in found.reason


def test_a_recording_cannot_be_asked() -> None:
    assert isinstance(read_socket_pins(ScriptedHost({b"/proc/1/stat": b""}, is_live=False), V2), Gap)
