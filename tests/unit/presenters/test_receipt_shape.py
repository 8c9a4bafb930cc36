# SPDX-License-Identifier: Apache-2.0
"""Receipts, verify, undo and the list of actions at 40, 80 and 120 columns: the answer first, what to type next last."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.unit.machines.shape import check_shape, drawn

from zombiescope.analysis import comparing
from zombiescope.diagnosis.outcome import Holding, Outcome
from zombiescope.execution.journal import restore_line, undo_line, verify_line
from zombiescope.facts.cgroups import Identity
from zombiescope.facts.reclaim import Vitals
from zombiescope.presenters.actions import render_actions_text
from zombiescope.presenters.receipt_text import (
    render_receipt_text,
    render_undo_dry_run,
    render_undo_text,
    render_verify_text,
)
from zombiescope.remedies.plan import AskHuman, DeleteFiles, Expected, NamedFile, Risk, Step, Undo
from zombiescope.remedies.receipts import PastAction, PastStep, StepReceipt, Taken, UndoState, Verified

ACTION = "20261118T094730-342e1e"
FOLDER = f"/srv/state of mine/actions/{ACTION}"
LINES = undo_line(FOLDER), restore_line(FOLDER)
FILES = tuple(NamedFile(b"/dev/shm/a folder with a long name/%d" % number, number) for number in range(40))
DELETE = Step(
    1, "delete:/dev/shm/a", "delete_shared_files", "delete 40 files in /dev/shm/a folder with a long name", DeleteFiles(FILES),
    "they hold zombies", "pinned-shared-memory", Risk.HIGH, Undo.NONE, "zombiescope scan", Expected(40, 163_840, 40),
    needs_consent=True,
)  # fmt: skip
HAND = DELETE._replace(
    n=2, title="drain this node and reboot it", change=AskHuman(("kubectl drain NODE",)), expected=None
)
EXACT = DELETE._replace(undo=Undo.EXACT)
BEFORE = Vitals(0.0, 5.0, 93, 40, 40, 3, 0.00039, 0.0, None)


class Copy(NamedTuple):
    path: str
    copy: str


STEPS = (StepReceipt(DELETE, "done", 40), StepReceipt(HAND, "for-people", None, "printed, never done here"))
PAST = tuple(PastStep(each.step.name, each.step.title, each.status, each.zombies_freed, each.note) for each in STEPS)
KEPT = (Copy("/dev/shm/a folder with a long name/1", f"{FOLDER}/kept/0001"),)


@pytest.mark.parametrize("step", [DELETE, EXACT], ids=["gone", "exact"])
@pytest.mark.parametrize("kept", [(), KEPT], ids=["no copies", "copies"])
def test_a_receipt(step: Step, kept: tuple[Copy, ...]) -> None:
    steps = (STEPS[0]._replace(step=step), *STEPS[1:])
    parts = render_receipt_text(ACTION, steps, LINES[0], kept, LINES[1])
    check_shape(parts, step.undo)
    assert drawn(parts, 80).startswith("1 step done, 40 zombies freed\n")


@pytest.mark.parametrize("verdict", list(Holding))
def test_what_came_of_it(verdict: Holding) -> None:
    outcome = Outcome(verdict, "40 zombies before, 0 now, none more in 600 s")
    stock = comparing.ComparedRow(
        "zombies",
        "at the end",
        comparing.Measure(40, 600.0, "window"),
        comparing.Measure(0, 600.0, "window"),
        comparing.Direction.BETTER,
    )
    rate = comparing.Measure(1.5, 21_600.0, "history", 0.1, 4.2, 9)
    growth = comparing.ComparedRow(
        "restarts of the maker", "per hour", rate, rate, comparing.Direction.SAME, "the range is wide"
    )
    untold = comparing.ComparedRow(
        "resets of network cards",
        "per hour",
        comparing.NOT_MEASURED,
        comparing.NOT_MEASURED,
        comparing.Direction.UNKNOWN,
    )
    who = Identity(None, None, None, None)
    seen = Verified(ACTION, outcome, BEFORE, BEFORE._replace(ours=0), 1.7e9, who, (stock, growth, untold))
    parts = render_verify_text(seen, (LINES[0], verify_line(FOLDER)))
    check_shape(parts, verdict)
    assert drawn(parts, 80).startswith(f"{verdict}: ")


@pytest.mark.parametrize("outcomes", [("restored",), ("nothing-to-do",), ("restored", "cannot-be-undone"), ()])
@pytest.mark.parametrize("kept", [(), KEPT], ids=["no copies", "copies"])
def test_what_was_taken_back(outcomes: tuple[str, ...], kept: tuple[Copy, ...]) -> None:
    taken = [
        Taken(1, "write /sys/fs/cgroup/system.slice/memory.high", outcome, "it is as it was") for outcome in outcomes
    ]
    parts = render_undo_text(ACTION, taken, kept, LINES[1])
    check_shape(parts, outcomes)
    first = drawn(parts[:1], 300)
    assert first.startswith(
        "not everything" if "cannot-be-undone" in outcomes else "taken back" if "restored" in outcomes else "nothing"
    )
    dry = render_undo_dry_run(ACTION, list(outcomes), [], kept, (LINES[1], LINES[0]), also_files=False)
    check_shape(dry, outcomes)
    assert drawn(dry, 300).startswith("dry run: nothing was changed" if outcomes or kept else "nothing is left")


@pytest.mark.parametrize("undo", list(UndoState))
def test_the_list_of_actions(undo: UndoState) -> None:
    action = PastAction(ACTION, 1.7e9, 1.7e9, "", PAST, undo, LINES[0], KEPT, LINES[1], f"{FOLDER}/journal.jsonl")
    check_shape(render_actions_text("/srv/state of mine", 1, [action]), undo)
    check = {"at": 1.7e9, "verdict": "not-held", "why": "12 new zombies in 600 s", "rows": []}
    told = drawn(render_actions_text("/srv/state of mine", 1, [action._replace(checks=(check,))]), 120)
    assert "did not hold, checked 2023-11-14 22:13 UTC: 12 new zombies in 600 s" in told
    check_shape(render_actions_text("/srv/state of mine", 0, []), "none")
