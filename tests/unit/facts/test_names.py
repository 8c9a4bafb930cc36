# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.facts.names import quiet, quiet_lines, raw, shown, shown_text, unshown, zombies_said

HOSTILE = (
    b"\x1b[31mred\x1b[0m",
    b"a\nb",
    b"[bold]x[/]",
    b"<script>alert(1)</script>",
    b"\xff\xfe\x80",
    b"\\x0a",
    b"\\",
    b"n" * 255,
    "\u202eevil\u2066".encode(),
    "zoë 日本".encode(),
    b"\xed\xa0\x80",
    b"",
)


@given(st.binary())
def test_any_name_comes_back_from_what_is_shown(name: bytes) -> None:
    assert unshown(shown(name)) == name


@given(st.text())
def test_any_text_comes_back_from_what_is_shown(name: str) -> None:
    written = name.encode("utf-8")
    assert unshown(shown(written)) == written


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8")))
def test_nothing_shown_can_act_on_a_terminal(name: bytes) -> None:
    text = shown(name)
    assert all(character.isprintable() for character in text)
    text.encode("utf-8")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_come_back(name: bytes) -> None:
    assert unshown(shown(name)) == name


def test_what_is_shown_is_what_the_contract_says() -> None:
    assert shown(b"a\nb\\c\xff") == r"a\x0ab\\c\xff"
    assert shown("zoë".encode()) == "zoë"
    assert shown(b"[bold]x[/]") == "[bold]x[/]"


def test_a_backslash_that_starts_no_escape_is_taken_as_it_stands() -> None:
    assert unshown(r"a\q\x0") == rb"a\q\x0"


@given(st.text())
def test_any_text_a_person_types_is_read(text: str) -> None:
    assert isinstance(unshown(text), bytes)


def test_one_zombie_is_not_several() -> None:
    assert [zombies_said(1), zombies_said(1, "are"), zombies_said(1, "hold")] == [
        "1 zombie",
        "1 zombie is",
        "1 zombie holds",
    ]
    assert [zombies_said(0), zombies_said(1200, "hold")] == ["0 zombies", "1,200 zombies hold"]


@given(st.binary(max_size=40))
def test_what_was_shown_stays_as_it_is(name: bytes) -> None:
    assert quiet(shown(name)) == shown(name)


@given(st.text(st.characters(), max_size=40))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    assert quiet(text).isprintable()
    assert not set(quiet_lines(text)) & set("\x1b\x07\x08\r\x7f\x9b\u202e\u2066\ud800\udc9b")


def test_lines_stay_lines() -> None:
    assert quiet_lines("a\tb\nc\u00a0d \x1b[2J") == "a\tb\nc\u00a0d \\x1b[2J"


def test_half_a_pair_of_utf_16_from_a_stranger_s_json_is_shown_and_comes_back() -> None:
    text = "a\ud800b\udcff\n"
    assert shown_text(text) == r"a\xed\xa0\x80b\xff\x0a"
    assert unshown(shown_text(text)) == raw(text)
