# SPDX-License-Identifier: Apache-2.0
"""What counts the house counts right."""

from __future__ import annotations

import sys

import pytest
from tools.house_size import here, main, size_of


def test_statements_modules_and_importers_of_a_small_package() -> None:
    sources = {
        "src/zombiescope/__init__.py": "",
        "src/zombiescope/a.py": "from zombiescope import b\nfrom zombiescope.c import name\nx = 1\n",
        "src/zombiescope/b.py": '"""B."""\nimport zombiescope.c\n',
        "src/zombiescope/c.py": "def name() -> int:\n    if True:\n        return 1\n    return 2\n",
    }
    size = size_of(sources)
    assert size.modules == 3, "an empty file is no module"
    assert size.statements == 3 + 2 + 4
    assert size.median_lines == 3
    assert size.single_importer == 1, "b by a alone; c by a and b; a by nobody"


def test_this_house_is_counted() -> None:
    assert size_of(here()).modules > 100


def test_two_commits_are_compared_and_one_that_is_not_there_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["house_size.py", "--of", "HEAD", "--against", "HEAD"])
    assert main() == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 5 and all(row.endswith("1.000") for row in rows[1:])
    monkeypatch.setattr(sys, "argv", ["house_size.py", "--of", "no-such-commit"])
    assert main() == 3
    assert "cannot read no-such-commit" in capsys.readouterr().err
