# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.probes.kernel_text import cpu_list_count, flat_keyed, number, quoted, refusal, unoctal


@given(st.binary())
def test_any_bytes_give_a_value_or_none(text: bytes) -> None:
    value = number(text)
    assert value is None or 0 <= value < 1 << 64
    assert all(0 <= each < 1 << 64 for each in flat_keyed(text).values())
    count = cpu_list_count(text)
    assert count is None or 1 <= count <= 1 << 20
    assert len(unoctal(text)) <= len(text)
    assert quoted(text).isprintable()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"0", 0),
        (b" 42\n", 42),
        (b"18446744073709551615", (1 << 64) - 1),
        (b"18446744073709551616", None),
        (b"-1", None),
        (b"1_0", None),
        (b"", None),
        (b"max", None),
        (b"9" * 5000, None),
    ],
)
def test_a_number_is_digits_of_at_most_64_bits(text: bytes, value: int | None) -> None:
    assert number(text) == value


def test_lines_of_another_shape_are_left_out() -> None:
    assert flat_keyed(b"anon 1\ngarbage\nfile x\nshmem 2 3\nswap 4") == {b"anon": 1, b"swap": 4}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (b"0\n", 1),
        (b"0-3,8\n", 5),
        (b"0-0", 1),
        (b"", None),
        (b"3-1", None),
        (b"0-", None),
        (b"0-18446744073709551615", None),
    ],
)
def test_a_list_of_cpus_is_counted(text: bytes, count: int | None) -> None:
    assert cpu_list_count(text) == count


def test_octal_escapes_of_a_mount_table() -> None:
    assert unoctal(rb"/a\040b\011c\012d\134e\9") == b"/a b\tc\nd\\e\\9"


def test_a_refusal_says_the_path_why_and_what_would_help() -> None:
    gap = refusal("memcg.live", b"/a\nb", OSError(errno.EACCES, "Permission denied"))
    assert gap == ("memcg.live", r"/a\x0ab: permission denied", "run as root")
    assert refusal("x", b"/p", OSError(errno.EIO, "Input/output error")).hint == ""
    assert refusal("x", b"/p", OSError()).reason == "/p: cannot be read"


def test_the_words_of_a_stranger_are_kept_short() -> None:
    assert quoted(b"a\x1b") == r"a\x1b"
    assert quoted(b"x" * 1000) == "x" * 120 + "..."
