# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import ScriptedHost, node_files

from zombiescope.facts.cgroups import Identity, Shape
from zombiescope.probes.readers.node import read_identity, read_shape

NODES = b"/sys/devices/system/node/possible"


def test_who_it_is() -> None:
    found = read_identity(ScriptedHost(node_files()))
    assert found == Identity("build-7", "6.1.0-built", "11111111-2222-3333-4444-555555555555", 3600.5)


def test_a_name_from_a_stranger_is_shown() -> None:
    found = read_identity(ScriptedHost({**node_files(), b"/proc/sys/kernel/hostname": b"\x1b[31mx\xff\n"}))
    assert found.name == r"\x1b[31mx\xff"


def test_each_field_that_is_missing_has_a_gap_of_its_own() -> None:
    found = read_identity(ScriptedHost({b"/proc/uptime": b"soon\n", b"/proc/sys/kernel/osrelease": b" \n"}))
    assert found[:4] == (None, None, None, None)
    assert [gap.fact for gap in found.gaps] == ["host.name", "host.kernel", "host.boot_id", "host.uptime_seconds"]


@pytest.mark.parametrize("text", [b"nan 1\n", b"inf 1\n", b"-3 1\n", b"\xff 1\n"])
def test_an_uptime_that_cannot_be_is_a_gap(text: bytes) -> None:
    found = read_identity(ScriptedHost({**node_files(), b"/proc/uptime": text}))
    assert found.uptime_seconds is None
    assert [gap.fact for gap in found.gaps] == ["host.uptime_seconds"]


def test_how_large_it_is() -> None:
    assert read_shape(ScriptedHost(node_files())) == Shape(4, 1)
    assert read_shape(ScriptedHost({**node_files(), NODES: b"0-1\n"})) == Shape(4, 2)


def test_a_kernel_without_numa_has_one_node() -> None:
    machine = node_files()
    del machine[NODES]
    assert read_shape(ScriptedHost(machine)) == Shape(4, 1)


@pytest.mark.parametrize("content", [b"many\n", b"", errno.EACCES])
def test_nodes_that_cannot_be_read_are_a_gap_and_not_one(content: bytes | int) -> None:
    found = read_shape(ScriptedHost({**node_files(), NODES: content}))
    assert (found.possible_cpus, found.possible_nodes) == (4, None)
    assert [gap.fact for gap in found.gaps] == ["cost.kernel_bytes"]


def test_without_cpus_and_nodes_there_is_a_gap() -> None:
    found = read_shape(ScriptedHost({}))
    assert found[:2] == (None, None)
    assert found.gaps


@given(st.binary())
def test_any_bytes_give_a_value_or_a_gap(content: bytes) -> None:
    host = ScriptedHost(dict.fromkeys(node_files(), content))
    identity, shape = read_identity(host), read_shape(host)
    for value, fact in zip(identity[:4], ("name", "kernel", "boot_id", "uptime_seconds"), strict=True):
        assert (value is None) == (f"host.{fact}" in {gap.fact for gap in identity.gaps})
    assert (None in shape[:2]) == bool(shape.gaps)
