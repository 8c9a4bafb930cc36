# SPDX-License-Identifier: Apache-2.0
"""Which format is given for which header Accept, in our words whatever the header says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.agent.api import Exposition, known_format, write_textfile

OPEN, CLASSIC = "application/openmetrics-text; version=1.0.0", "text/plain; version=1.0.0"


@pytest.mark.parametrize(
    ("accept", "known"),
    [
        ("", ""),
        ("*/*", ""),
        ("text/plain", ""),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", ""),
        ("application/openmetrics-text", OPEN),
        ("application/openmetrics-text;version=0.0.1,text/plain", ""),
        ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;q=0.3", OPEN),
        ("text/plain;version=1.0.0;escaping=allow-utf-8,application/openmetrics-text", CLASSIC),
        ("application/openmetrics-text; version=2.0.0-evil", ""),
    ],
)
def test_the_first_that_is_known_is_taken(accept: str, known: str) -> None:
    assert known_format(accept) == known


@given(st.text(st.characters(max_codepoint=255)))
def test_nothing_of_the_header_comes_back(text: str) -> None:
    for accept in (
        text,
        f"application/openmetrics-text; version={text}",
        f"text/plain; version=1.0.0; escaping={text}",
    ):
        kind, _ = Exposition(list).render(accept)
        assert kind in {Exposition(list).render(known)[0] for known in ("", OPEN, CLASSIC)}


def test_it_is_replaced_whole_and_readable(tmp_path: Path) -> None:
    path, old = tmp_path / "out.prom", os.umask(0o077)
    try:
        assert write_textfile(str(path), b"one\n") is None
        assert write_textfile(str(path), b"two\n") is None
    finally:
        os.umask(old)
    assert path.read_bytes() == b"two\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["out.prom"]


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "out.prom").symlink_to("precious")
    assert write_textfile(str(tmp_path / "out.prom"), b"one\n") is None
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "out.prom").is_symlink()


def test_why_not_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert write_textfile(str(tmp_path / "a"), b"x") == "is a directory"
    assert write_textfile(str(tmp_path / "none/out.prom"), b"x") == "no such file or directory"
    (tmp_path / "a").chmod(0o777)
    why = write_textfile(str(tmp_path / "a/out.prom"), b"x")
    assert why
    assert why.startswith("others may write to ")
    assert os.listdir(tmp_path / "a") == []
    assert os.listdir(tmp_path) == ["a"]
