# SPDX-License-Identifier: Apache-2.0
"""Twelve labelled trees of a system that mmdebstrap made: the verdict is right in all, and none is passed in silence."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.gate.conftest import need, refuse
from tests.gate.labelled import VARIANTS, make, stock_root

from zombiescope.cli.main import main


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("mmdebstrap", "systemctl")
    try:
        return stock_root(tmp_path_factory.mktemp("mmdebstrap"))
    except subprocess.CalledProcessError as error:
        refuse(f"mmdebstrap: {error.stderr.decode(errors='replace')[-300:]}")
        raise


def test_there_are_twelve() -> None:
    assert len(VARIANTS) == 12
    assert {variant.verdict for variant in VARIANTS.values()} == {"OK", "WARNING", "CRITICAL", "UNKNOWN"}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_labelled_tree(name: str, stock: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["check", "--root", str(make(stock, name, tmp_path)), "--json"])
    document = json.loads(capfd.readouterr().out)
    failing = [reason["what"] for reason in document["reasons"] if reason["verdict"] != "OK"]
    label = VARIANTS[name]
    assert (document["verdict"], failing) == (label.verdict, [label.what] if label.what else [])
    assert status == ["OK", "WARNING", "CRITICAL", "UNKNOWN"].index(label.verdict)
