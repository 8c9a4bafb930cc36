# SPDX-License-Identifier: Apache-2.0
"""Generated reference equals its source, and every alert has its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.write_reference import PAGES

from zombiescope.presenters.prometheus_rules import ALERTS, OTHERS_ALERTS, fleet_alerts

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_is_what_its_source_says(name: str) -> None:
    assert (DOCS.parent / name).read_text(encoding="utf-8") == PAGES[name](), (
        "run .venv/bin/python tools/write_reference.py"
    )


def test_every_alert_has_a_section_of_its_own() -> None:
    headings = re.findall(r"^## (.*)$", (DOCS / "guides/alerts.md").read_text(encoding="utf-8"), re.MULTILINE)
    of_fleets = [alert.name for alert in fleet_alerts(())]
    assert headings == [*(alert.name for alert in (*ALERTS, *OTHERS_ALERTS)), *of_fleets, "FleetCohortOutlier"]
