# SPDX-License-Identifier: Apache-2.0
"""The incident asks our own command, from whatever folder it was begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.lab.incident import Incident


def test_a_package_of_our_name_in_the_folder_we_are_in_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zombiescope").mkdir()
    for name in ("__init__", "__main__"):
        (tmp_path / f"zombiescope/{name}.py").write_text("print('run by root')")
    monkeypatch.chdir(tmp_path)
    assert "version" in Incident._printed(object.__new__(Incident), "--version")
