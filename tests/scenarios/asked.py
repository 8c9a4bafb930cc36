# SPDX-License-Identifier: Apache-2.0
"""What the doctor says of each scenario: built ones from their facts, real ones from their recordings, or from their
facts where there is no recording yet."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

from tests.scenarios.built import BUILT, STAND_INS
from tests.scenarios.held_out import HELD_OUT, HELD_OUT_RECORDED
from tests.scenarios.labels import FOLDER, Label

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import Diagnosis, diagnose
from zombiescope.host.bundle import open_bundle
from zombiescope.pipeline.doctor import examine

_FILES = (*(FOLDER / "recorded").glob("*.tar.gz"), *HELD_OUT_RECORDED)
RECORDED = {file.name.removesuffix(".tar.gz"): file for file in sorted(_FILES)}
SECONDS, HELD_OUT_SECONDS = 3.0, 10.0
"""How long each was recorded for."""


@cache
def case_of(name: str) -> Case | None:
    """None: there is no such scenario yet."""
    built = BUILT.get(name) or HELD_OUT.get(name)
    if built is not None:
        return built()
    file = RECORDED.get(name)
    if file is not None:
        seconds = HELD_OUT_SECONDS if file in HELD_OUT_RECORDED else SECONDS
        return examine(open_bundle(bytes(file)), seconds).case
    return STAND_INS[name]() if name in STAND_INS else None


@cache
def diagnosis_of(name: str) -> Diagnosis | None:
    seen = case_of(name)
    return None if seen is None else diagnose(seen)


class Outcome(NamedTuple):
    label: Label
    found: Diagnosis

    @property
    def is_recorded(self) -> bool:
        return self.label.name in RECORDED

    @property
    def origin_right(self) -> bool:
        return self.found.origin == self.label.origin

    @property
    def maker_right(self) -> bool:
        return fnmatchcase(self.found.maker, self.label.maker)

    @property
    def remedy_right(self) -> bool:
        return self.found.first_remedy in self.label.first_remedy.split("|")

    @property
    def wrong_findings(self) -> list[str]:
        verdicts = {finding.id: finding.verdict.value for finding in self.found.findings}
        missing = [f"{name} not present" for name in self.label.present if verdicts.get(name) != "present"]
        if self.label.severity and self.found.worst != self.label.severity:
            missing.append(f"worst {self.found.worst}, not {self.label.severity}")
        return missing + [f"{name} {verdicts[name]}" for name in self.label.absent if verdicts.get(name) == "present"]

    @property
    def is_right(self) -> bool:
        return self.origin_right and self.maker_right and self.remedy_right and not self.wrong_findings


def outcomes(labels: Mapping[str, Label]) -> tuple[list[Outcome], list[str]]:
    """Those that there are, and the names of those that are only labelled."""
    found = {name: diagnosis_of(name) for name in labels}
    told = [Outcome(labels[name], diagnosis) for name, diagnosis in found.items() if diagnosis is not None]
    return told, [name for name, diagnosis in found.items() if diagnosis is None]
