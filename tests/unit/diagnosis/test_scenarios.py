# SPDX-License-Identifier: Apache-2.0
"""Every labelled scenario: origin, maker and first remedy right, and the findings that must be there and must not."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from tests.scenarios.built import BUILT
from tests.scenarios.labels import read_labels

from zombiescope.diagnosis.engine import diagnose

LABELS = read_labels()


@pytest.mark.parametrize("name", BUILT)
def test_a_scenario_is_diagnosed_as_labelled(name: str) -> None:
    label, found = LABELS[name], diagnose(BUILT[name]())
    verdicts = {finding.id: finding.verdict.value for finding in found.findings}
    assert found.origin == label.origin, found.verdict
    assert fnmatchcase(found.maker, label.maker), found.verdict
    assert found.first_remedy == label.first_remedy, found.verdict
    assert {finding: verdicts.get(finding) for finding in label.present if finding in verdicts} == dict.fromkeys(
        (finding for finding in label.present if finding in verdicts), "present"
    )
    assert {finding for finding in label.absent if verdicts.get(finding, "absent") != "absent"} == set()
