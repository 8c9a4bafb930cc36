# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from zombiescope.lab.truth import Setting, Stage, account_of

SETTING = Setting("zombiescope lab incident --count 100", "6.1", "v2", 2, 0.5, "a real unit")
STAGES = (
    Stage("before", 1.5, "fast", {}),
    Stage("doctor", 10.0, "a | b\nc", {"present": ["x"]}, {"zombiescope doctor": "\nverdict  \n\nfindings\n"}),
)


def test_the_account_tells_every_stage_and_what_was_printed() -> None:
    text = account_of(SETTING, STAGES)
    assert "`zombiescope lab incident --count 100`" in text
    assert "Linux 6.1, memory on cgroup v2, 2 CPUs, load 0.5 when it began" in text
    assert "* how long: 12 s in all" in text or "* how long: 11 s in all" in text
    assert "| before | 1.5 | fast |" in text
    assert "## `zombiescope doctor`\n\n```\nverdict\n\nfindings\n```\n" in text


def test_what_was_told_does_not_break_the_table() -> None:
    assert "| doctor | 10.0 | a \\| b c |" in account_of(SETTING, STAGES)
