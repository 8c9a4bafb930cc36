# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.kernel.network import DiagSocket, messages, parse_answer

TCP = socket.IPPROTO_TCP


def answer(attributes: bytes) -> bytes:
    return bytes(68) + struct.pack("=I", 99) + attributes


def attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


CGROUP = attribute(21, struct.pack("=Q", 4242))


def test_the_cgroup_is_found_among_other_attributes() -> None:
    message = answer(attribute(8, b"\x01") + CGROUP + attribute(15, bytes(4)))
    assert parse_answer(message, TCP) == DiagSocket(4242, "tcp", 99)
    assert parse_answer(answer(CGROUP), socket.IPPROTO_UDP) == DiagSocket(4242, "udp", 99)


@pytest.mark.parametrize(
    "message",
    [b"", answer(b""), answer(CGROUP)[:-3], answer(attribute(21, bytes(4))), answer(bytes(8))],
)
def test_an_answer_without_one_is_none(message: bytes) -> None:
    assert parse_answer(message, TCP) is None


def test_a_block_holds_messages_one_after_the_other() -> None:
    def message(kind: int, body: bytes) -> bytes:
        return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body + bytes(-len(body) % 4)

    block = message(20, b"abc") + message(3, bytes(4))
    assert list(messages(block)) == [(20, b"abc"), (3, bytes(4))]
    assert list(messages(bytes(40))) == []


@given(st.binary(max_size=200))
def test_any_bytes_end(block: bytes) -> None:
    for _, message in messages(block):
        parse_answer(message, TCP)
