# SPDX-License-Identifier: Apache-2.0
"""What was done with a plan, as records: the receipt of a step, what was taken back, an action of the past, and whether it held."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from zombiescope.analysis.comparing import ComparedRow, ShareChange
from zombiescope.diagnosis.outcome import Outcome
from zombiescope.facts.cgroups import Identity
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import Vitals
from zombiescope.remedies.plan import Step


class StepReceipt(NamedTuple):
    step: Step
    status: str
    """`done`, `skipped` or `for-people`."""
    zombies_freed: int | None = None
    note: str = ""


class Kept(Protocol):
    """A deleted file and its copy."""

    @property
    def path(self) -> str: ...
    @property
    def copy(self) -> str: ...


class Taken(NamedTuple):
    """One change taken back, or why not."""

    seq: int
    what: str
    outcome: str
    """`restored`, `nothing-to-do`, `cannot-be-undone` (data went, declared so before), `not-restored`."""
    why: str = ""
    is_lost: bool = False
    """Something of value went."""


class UndoState(StrEnum):
    """What `undo` would do with an action."""

    AT_WORK = "at-work"
    """It has not ended yet."""
    IN_THE_MIDDLE = "in-the-middle"
    """It was cut short: what it changed is neither finished nor put back."""
    POSSIBLE = "possible"
    UNDONE = "undone"
    NOTHING = "nothing"
    """Nothing of it can be taken back, or it changed nothing."""
    UNKNOWN = "unknown"
    """Its journal cannot be read."""


class PastStep(NamedTuple):
    name: str
    title: str
    status: str
    """`done`, `skipped`, `for-people`, or `cut-short` where the journal does not tell its end."""
    freed: int | None
    note: str


class PastAction(NamedTuple):
    id: str
    begun_at: float | None
    ended_at: float | None
    root: str
    """The root folder of an image; empty for this host."""
    steps: tuple[PastStep, ...]
    undo: UndoState
    undo_line: str
    kept: tuple[Kept, ...]
    restore_line: str
    journal: str
    gap: str = ""
    """Why its journal could not be read."""
    checks: tuple[Mapping[str, Any], ...] = ()
    """Whether it held, as `verify` found it, the newest last."""


class Verified(NamedTuple):
    action: str | None
    outcome: Outcome
    before: Vitals | None
    after: Vitals | None
    taken_at: float
    identity: Identity
    rows: tuple[ComparedRow, ...] = ()
    gaps: tuple[Gap, ...] = ()
    jobs_changed: ShareChange | None = None
