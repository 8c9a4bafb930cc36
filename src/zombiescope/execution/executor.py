# SPDX-License-Identifier: Apache-2.0
"""One step at a time; at the first surprise it stops. How each primitive of a plan is done."""

from __future__ import annotations

from typing import assert_never

from zombiescope.execution.freeing import Freeing, Surroundings
from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import SurpriseError, refused
from zombiescope.remedies.plan import (
    AskHuman,
    Change,
    DeleteFiles,
    DropCaches,
    DropFiles,
    Flush,
    PlaceFile,
    PlaceLink,
    Reclaim,
    RemoveLinks,
    RemoveSegments,
    RewriteFiles,
    SetFile,
    Step,
    StopUnit,
    SwapIn,
    Undo,
)
from zombiescope.remedies.receipts import StepReceipt

_SETTLE_LOOKS = 300
_SETTLE_SECONDS = 0.1
_STILL_LOOKS = 20
"""So often in a row the same number: the kernel frees in the background, and on a busy machine that pauses."""


class Executor:
    def __init__(self, hands: Hands, around: Surroundings, *, has_systemd: bool) -> None:
        self._hands, self._around, self._has_systemd = hands, around, has_systemd
        self._freeing = Freeing(hands, around)

    def skip(self, step: Step, note: str, status: str = "skipped") -> StepReceipt:
        try:
            self._hands.journal.add("step-end", n=step.n, name=step.name, status=status, note=note)
        except OSError as error:
            raise refused("cannot keep the journal", error) from error
        return StepReceipt(step, status, None, note)

    def run(self, step: Step) -> StepReceipt:
        """Raises SurpriseError; what the journal cannot hold is one too."""
        try:
            return self._run(step)
        except OSError as error:
            raise refused(f"cannot keep the journal of {step.title!r}", error) from error

    def _run(self, step: Step) -> StepReceipt:
        if step.is_for_people:
            return self.skip(step, "printed, never done here", "for-people")
        self._hands.step = step.n
        self._hands.journal.add("step", n=step.n, name=step.name, title=step.title, undo=step.undo)
        before = self._around.stock() if step.expected else None
        note = self._do(step.change, step.undo)
        freed = self._freed(before, step.expected.zombies_freed if step.expected else None)
        self._hands.journal.add("step-end", n=step.n, name=step.name, status="done", freed=freed, note=note)
        return StepReceipt(step, "done", freed, note)

    def _freed(self, before: int | None, wanted: int | None) -> int | None:
        """The kernel frees a little later than it lets go: looked at until what is expected is there, or it stands still."""
        if before is None:
            return None
        last, still = before, 0
        for _ in range(_SETTLE_LOOKS):
            self._hands.writer.settle()
            self._around.wait(_SETTLE_SECONDS)
            now = self._around.stock()
            if now is None:
                return None
            still = still + 1 if now == last else 0
            last = now
            if (wanted is not None and before - now >= wanted) or still >= _STILL_LOOKS:
                break
        return before - last

    def _do(self, change: Change, undo: Undo) -> str:  # noqa: C901, PLR0911, PLR0912 (one line a primitive)
        match change:
            case StopUnit(unit=unit):
                return self._hands.stop_unit(unit)
            case PlaceLink(path=path, target=target):
                self._hands.place_link(path, target)
                return self._reload()
            case RemoveLinks(paths=paths):
                for path in paths:
                    self._hands.remove_link(path)
                return self._reload()
            case PlaceFile(path=path, content=content):
                self._hands.place_file(path, content)
                return self._reload()
            case SetFile(path=path, value=value):
                if undo is Undo.NONE:
                    return self._freeing.set_trigger(path, value)
                self._hands.set_value(path, value)
                return ""
            case Reclaim():
                return self._freeing.reclaim(change)
            case DropFiles():
                return self._freeing.drop_files(change)
            case RewriteFiles():
                return self._freeing.rewrite_files(change)
            case DeleteFiles():
                return self._freeing.delete_files(change)
            case RemoveSegments():
                return self._freeing.remove_segments(change)
            case Flush():
                return self._freeing.flush(change)
            case SwapIn():
                return self._freeing.swap_in(change)
            case DropCaches(path=path):
                self._hands.writer.sync()
                return self._freeing.set_trigger(path, b"1")
            case AskHuman():
                raise SurpriseError("cannot do a step that you do by hand", "a bug in the plan")
            case _:
                assert_never(change)

    def _reload(self) -> str:
        if self._has_systemd:
            self._hands.reload()
            return ""
        return "systemd was not told: it does not run here"
