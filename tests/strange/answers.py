# SPDX-License-Identifier: Apache-2.0
"""Every reading command, the exit codes that the contract has for it, and what any answer must keep to, however little is known."""

from __future__ import annotations

import json
from subprocess import CompletedProcess

from tests.vm.stories.product import unexplained

COMMANDS = {
    "scan": (["--json"], {0, 3}),
    "autopsy": (["--json", "--limit", "3"], {0, 3}),
    "doctor": (["--seconds", "0", "--json"], {0, 3}),
    "plan": (["--seconds", "0", "--json"], {0, 3}),
    "cores": (["--seconds", "0.2", "--json"], {0, 3}),
    "audit": (["--seconds", "0.3", "--json"], {0, 3}),
    "check": (["--json"], {0, 1, 2, 3}),
    "reap": (["--json"], {0, 3}),
    "top": (["--count", "1", "--interval", "0.2", "--plain"], {0, 3}),
    "record": (["--seconds", "0", "FOLDER/record.tar.gz"], {0, 3}),
    "actions": (["--state", "FOLDER/none", "--json"], {0}),
    "lab list": (["--json"], {0}),
    "history": (["--state", "FOLDER/none", "--json"], {3}),
    "verify": (["--state", "FOLDER/none", "--json"], {2}),
    "explain": (["zombie-population"], {0}),
    "self-check": (["--json"], {0, 3}),
    "licenses": ([], {0}),
}
ELSEWHERE = {
    "agent": "has a test of its own",
    "apply": "acts; without --yes it is the plan",
    "undo": "acts",
    "profile": "reads and writes captures",
    "fleet": "asks other hosts",
    "serve": "serves what the reading commands say",
    "export": "prints what is shipped",
    "help": "prints what is shipped",
    "completion": "prints what is shipped",
}
"""Commands that are not tried on every strange host, and why."""
_OPTIONAL = {"reasons[].waiver", "units[].makes_cgroups"}
"""Null says that there is none; and of an agent, that nobody knows."""


def words_of(command: str, folder: object) -> list[str]:
    """What to type, with a folder of one's own for what is written or kept."""
    return [*command.split(), *(word.replace("FOLDER", str(folder)) for word in COMMANDS[command][0])]


def judge(command: str, done: CompletedProcess[str]) -> str:
    """Fails unless the answer is one: no traceback, a code of the contract, and a reason for all that is not known."""
    said = done.stdout + done.stderr
    assert "Traceback" not in said and "this is a bug" not in said, said[-3000:]
    words, codes = COMMANDS[command]
    assert done.returncode in codes, f"exit {done.returncode}: {said[-3000:]}"
    assert said.strip(), "no answer at all"
    if done.stdout and "--json" in words:
        answer = json.loads(done.stdout)
        nulls = set(unexplained({"gaps": [], **answer})) - _OPTIONAL
        assert not nulls, f"null without a gap: {nulls}"
        assert done.returncode != 3 or answer["gaps"], "could not look, and no why"
    elif done.returncode == 3:
        assert "why: " in done.stderr, said
    return said
