# SPDX-License-Identifier: Apache-2.0
"""The incident in every form, word for word."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.trees import INCIDENT, plant

from zombiescope.cli.main import main

MOMENT = 1_700_000_000
FORMATS = ("text", "json", "junit", "sarif", "nagios", "npd", "prometheus", "github")


@pytest.fixture
def incident(tmp_path: Path) -> Path:
    root = plant(tmp_path / "incident", INCIDENT)
    os.utime(root, (MOMENT, MOMENT))
    return root


def said(capfd: pytest.CaptureFixture[str], root: Path, *arguments: str) -> str:
    main([*arguments, "--root", str(root)])
    text = capfd.readouterr().out.replace(str(root), "/ROOT")
    return re.sub(r'"version": "[0-9]+\.[0-9]+\.[0-9]+[^"]*",\n( +"rules")', r'"version": "VERSION",\n\1', text)


@pytest.mark.parametrize("form", FORMATS)
def test_check(
    incident: Path, form: str, capfd: pytest.CaptureFixture[str], golden: Callable[[str, str], None]
) -> None:
    golden(f"check/incident.{form}", said(capfd, incident, "check", "--format", form))


def test_audit(
    incident: Path,
    capfd: pytest.CaptureFixture[str],
    golden: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    golden("audit/incident.txt", said(capfd, incident, "audit"))
    golden("audit/incident.json", said(capfd, incident, "audit", "--json"))
