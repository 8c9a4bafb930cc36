# SPDX-License-Identifier: Apache-2.0
"""The runner of the documents' commands is not fooled: what fails, hangs, says nothing or leaves a traceback is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.fences import fences_of
from tools.run_fences import Outcome, Session


class Here:
    """No namespace: these commands touch nothing."""

    @staticmethod
    def way_in() -> list[str]:
        return ["nsenter"]


def outcomes(text: str, folder: Path) -> list[Outcome]:
    fences = list(fences_of("x.md", text))
    session = Session(Here(), folder)
    try:
        return [session.run(fence) for fence in fences]
    finally:
        session.close(fences)


def fence(script: str, declared: str = "") -> str:
    return (f"<!-- {declared} -->\n" if declared else "") + f"```sh\n{script}\n```\n"


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        (fence("false\ntrue"), "ended with 1"),
        (fence("true", "run: exit=1"), "ended with 0"),
        (fence("sleep 20", "run: limit=1s"), "not done after 1 s"),
        (fence("echo 'Traceback (most recent call last)'"), "a traceback"),
        (fence("echo no", "run: daemon=ready, limit=2s"), "did not print 'ready'"),
        (fence("trap '' INT; sleep 1; exit 7", "run: stop=1s"), "interrupted, it ended with 7"),
        (fence("true", "before: false"), "what must be there before could not be made"),
    ],
)
def test_what_goes_wrong_is_noticed(text: str, trouble: str, tmp_path: Path) -> None:
    assert [outcome.trouble for outcome in outcomes(text, tmp_path)] == [trouble]


def test_what_goes_right_is_right_and_fences_follow_each_other_in_one_folder(tmp_path: Path) -> None:
    text = (
        fence("echo one > here")
        + fence("cat here there", "before: cp here there")
        + fence("echo ready; exec sleep 60", "run: daemon=ready")
        + fence("exit 3", "run: exit=2|3")
        + fence("sleep 60", "run: stop=1s")
        + fence("moon", "run: never, there is none")
    )
    told = outcomes(text, tmp_path)
    assert [outcome.trouble for outcome in told] == [""] * 6
    assert told[1].said == "one\none\n"
    assert told[-1].exit_code is None
