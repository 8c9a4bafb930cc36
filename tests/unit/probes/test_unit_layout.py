# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.probes.unit_layout import is_unit_name, parse_settings, template_of


def test_comments_continued_lines_and_sections() -> None:
    text = (
        b"# no\n[Service]\nExecStart=/bin/a \\\n# inside\n  b\n; no\nRestart = always\n\n[Install]\nWantedBy=x.target\n"
    )
    settings, problems = parse_settings(text, "f")
    assert [(s.section, s.key, s.value) for s in settings] == [
        ("Service", "ExecStart", "/bin/a    b"),
        ("Service", "Restart", "always"),
        ("Install", "WantedBy", "x.target"),
    ]
    assert problems == []


def test_what_systemd_ignores_is_ignored_and_named() -> None:
    settings, problems = parse_settings(b"A=1\n[Service]\nnonsense\nB=\xff\n[broken\nC=2\n", "f")
    assert settings == []
    assert [problem.split(":")[1] for problem in problems] == ["1", "3", "4", "5", "6"]


@given(st.binary(max_size=400))
def test_any_bytes_are_survived(data: bytes) -> None:
    settings, _ = parse_settings(data, "f")
    assert all(setting.section for setting in settings)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("a.service", True), ("a@b.service", True), (r"dev-x\x2dy.swap", True), ("a", False), ("a.exe", False), ("@x.service", False),
     ("é.service", False), ("a\n.service", False), ("x" * 250 + ".service", False)],
)  # fmt: skip
def test_unit_names(name: str, is_one: bool) -> None:
    assert is_unit_name(name) is is_one


def test_templates() -> None:
    assert template_of("getty@tty1.service") == "getty@.service"
    assert template_of("getty@.service") == ""
