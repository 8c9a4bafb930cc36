# SPDX-License-Identifier: Apache-2.0
"""A Python that is too old gets one plain sentence, from a checkout and from the one file for a plain python3."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zombiescope import __main__ as entry

PACKAGE = Path(entry.__file__).parent
OLD = [found for minor in range(6, 11) if (found := shutil.which(f"python3.{minor}"))]


@pytest.mark.parametrize("name", ["__init__.py", "__main__.py"])
def test_what_is_read_first_is_syntax_that_old_versions_know(name: str) -> None:
    text = (PACKAGE / name).read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 6))
    assert "__future__" not in {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}, (
        "3.7 began it"
    )
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]


def test_the_sentence_names_both_versions_and_the_next_thing_to_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 8, 10, "final", 0))
    with pytest.raises(SystemExit) as ended:
        entry.main()
    said = capsys.readouterr().err
    assert ended.value.code == 3
    assert said.startswith("zombiescope needs Python 3.11 or newer, and this is Python 3.8 (")
    assert "hint: " in said
    assert "the one-file build, which needs no Python: zombiescope-x86_64 or zombiescope-aarch64" in said
    assert len(said.splitlines()) == 2


def test_every_old_python_of_this_machine() -> None:
    for python in OLD:
        if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
            continue  # a name that leads to no interpreter
        command = [python, "-m", "zombiescope", "scan"]
        ran = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout) == (3, "")
        assert ran.stderr.startswith("zombiescope needs Python 3.11 or newer")
