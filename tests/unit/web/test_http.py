# SPDX-License-Identifier: Apache-2.0
"""Bytes become a request or a refusal, whatever they are and however they arrive; a response becomes bytes."""

from __future__ import annotations

import gzip
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.errors import UsageError
from zombiescope.web.http import MOST_HEAD, Exchange, RefusedError, Request, Response, load_h11, plain

GET = b"GET /a?b=1&c=%20 HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\n\r\n"


def refused(received: bytes) -> int:
    with pytest.raises(RefusedError) as caught:
        Exchange().take(received)
    return caught.value.response.status


def test_a_request_is_understood_whole_or_byte_by_byte() -> None:
    expected = Request("/a", {"b": "1", "c": " "}, {"host": "x", "accept": "text/plain"})
    assert Exchange().take(GET) == expected
    exchange = Exchange()
    taken = [exchange.take(GET[n : n + 1]) for n in range(len(GET))]
    assert taken == [None] * (len(GET) - 1) + [expected]
    assert exchange.is_all_read


@pytest.mark.parametrize(
    ("received", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /?" + b"a=1&" * 50 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nA: b\x00c\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * 3000, 431),
    ],
)
def test_what_is_no_question_is_refused(received: bytes, status: int) -> None:
    assert refused(received) == status


def test_who_leaves_before_asking_has_left() -> None:
    for before in (b"", b"GET / HT"):
        exchange = Exchange()
        if before:
            assert exchange.take(before) is None
        with pytest.raises(EOFError):
            exchange.take(b"")


def test_a_response_has_every_guard_and_the_body_only_where_it_is_wanted() -> None:
    for method in (b"GET", b"HEAD"):
        exchange = Exchange()
        exchange.take(GET.replace(b"GET", method))
        head, _, body = exchange.encode(plain(200, "hello")).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"content-security-policy: default-src 'none'" in head.lower()
        assert b"content-length: 6" in head.lower()
        assert b"connection: close" in head.lower()
        assert body == (b"hello\n" if method == b"GET" else b"")


def test_large_bodies_are_packed_for_who_takes_that() -> None:
    large = Response(200, "text/plain", b"x" * 50_000)
    exchange = Exchange()
    exchange.take(b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br, gzip\r\n\r\n")
    head, _, body = exchange.encode(large).partition(b"\r\n\r\n")
    assert b"content-encoding: gzip" in head.lower()
    assert gzip.decompress(body) == large.body
    exchange = Exchange()
    exchange.take(GET)
    assert exchange.encode(large).endswith(large.body)


def test_a_header_that_is_no_header_is_not_written() -> None:
    exchange = Exchange()
    exchange.take(GET)
    with pytest.raises(Exception, match="Illegal header"):
        exchange.encode(Response(200, "text/plain\r\nEvil: yes", b""))


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h11", None)
    with pytest.raises(UsageError, match="h11 is not installed") as caught:
        load_h11()
    assert "zombiescope[agent]" in caught.value.hint


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=5), st.booleans())
def test_any_bytes_are_a_request_or_none(parts: list[bytes], is_framed: bool) -> None:
    exchange = Exchange()
    with suppress(RefusedError):
        if is_framed:
            assert exchange.take(b"GET /") is None
        for part in parts:
            if exchange.take(part) is not None:
                break
        exchange.take(b" HTTP/1.1\r\n\r\n" * (MOST_HEAD // 10))
    assert exchange.encode(plain(400, "no")).startswith(b"HTTP/1.1 400 ")
