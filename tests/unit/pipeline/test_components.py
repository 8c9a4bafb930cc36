# SPDX-License-Identifier: Apache-2.0
"""`zombiescope licenses`: the parts of this build, from the list of the one file or from what is installed."""

from __future__ import annotations

import json

import pytest

from zombiescope.cli.main import main
from zombiescope.pipeline import components

Capture = pytest.CaptureFixture[str]
PACKED = [
    {"name": "zlib", "version": "1.3.1", "licence": "Zlib", "text": "permission is granted\n"},
    {"name": "zombiescope", "version": "0.1.0", "licence": "Apache-2.0", "text": "Apache License\n"},
    {"name": "silent", "version": "1", "licence": "MIT", "text": ""},
]


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "read_shipped", lambda name: json.dumps(PACKED).encode())
    monkeypatch.setattr(components, "_vendored", lambda: iter(()))


def test_an_installation_lists_what_it_requires_with_texts() -> None:
    found = {part.name: part for part in components.read_components()}
    assert next(iter(found)) == "zombiescope"
    assert {"click", "rich", "h11", "numpy"} <= set(found)
    assert found["click"].licence == "BSD-3-Clause"
    assert "Redistribution" in found["click"].text
    assert "Apache License" in found["zombiescope"].text
    assert "pytest" not in found, "only what we require"


@pytest.mark.usefixtures("packed")
def test_the_one_file_lists_what_was_packed(capsys: Capture) -> None:
    assert main(["licenses"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 parts are in this build"
    assert lines[2].split() == ["zombiescope", "0.1.0", "Apache-2.0"]
    assert any(line.startswith("unknown: no licence text came with silent") for line in lines)
    assert lines[-1] == "to read a licence: zombiescope licenses zlib"


@pytest.mark.usefixtures("packed")
def test_a_text_is_printed_by_name_whatever_the_case(capsys: Capture) -> None:
    assert main(["licenses", "ZLIB"]) == 0
    assert capsys.readouterr().out == "permission is granted\n"


@pytest.mark.usefixtures("packed")
def test_a_mistyped_name_gets_the_nearest(capsys: Capture) -> None:
    assert main(["licenses", "zlip"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "  try: zombiescope licenses zlib"


@pytest.mark.usefixtures("packed")
def test_for_a_program(capsys: Capture) -> None:
    assert main(["licenses", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "zombiescope.licenses/1"
    assert [part["has_text"] for part in told["components"]] == [True, False, True]
    assert [gap["fact"] for gap in told["gaps"]] == ["components[].has_text"]
