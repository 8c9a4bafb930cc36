# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.kernel.network import DiagSocket, messages, parse_answer

TCP = socket.IPPROTO_TCP


def answer(address: bytes, attributes: bytes) -> bytes:
    ports = struct.pack(">HH", 8080, 443)
    return (
        bytes(4)
        + ports
        + address.ljust(16, b"\0")
        + bytes(16)
        + bytes(12)
        + bytes(16)
        + struct.pack("=I", 99)
        + attributes
    )


def attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


CGROUP = attribute(21, struct.pack("=Q", 4242))


def test_the_cgroup_is_found_among_other_attributes() -> None:
    message = answer(bytes([10, 0, 0, 7]), attribute(8, b"\x01") + CGROUP + attribute(15, bytes(4)))
    found = parse_answer(message, socket.AF_INET, TCP)
    assert found == DiagSocket(4242, "tcp", "10.0.0.7:8080", "0.0.0.0:443", 99)
    six = parse_answer(answer(bytes(15) + b"\x01", CGROUP), socket.AF_INET6, socket.IPPROTO_UDP)
    assert six is not None and (six.local, six.protocol) == ("[::1]:8080", "udp")


@pytest.mark.parametrize(
    "message",
    [b"", answer(b"", b""), answer(b"", CGROUP)[:-3], answer(b"", attribute(21, bytes(4))), answer(b"", bytes(8))],
)
def test_an_answer_without_one_is_none(message: bytes) -> None:
    assert parse_answer(message, socket.AF_INET, TCP) is None


def test_a_block_holds_messages_one_after_the_other() -> None:
    def message(kind: int, body: bytes) -> bytes:
        return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body + bytes(-len(body) % 4)

    block = message(20, b"abc") + message(3, bytes(4))
    assert list(messages(block)) == [(20, b"abc"), (3, bytes(4))]
    assert list(messages(bytes(40))) == []


@given(st.binary(max_size=200))
def test_any_bytes_end(block: bytes) -> None:
    for _, message in messages(block):
        parse_answer(message, socket.AF_INET, TCP)
