# SPDX-License-Identifier: Apache-2.0
"""A plan: steps in order, each with what it changes, why, how dangerous it is, how it is undone, and what it will free.

A change is one of a handful of primitives; `execution` knows how each is done. Recipes multiply, primitives do not.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, assert_never

from zombiescope.facts.names import shown

KEPT_BYTES, KEPT_BYTES_IN_ALL = 64 << 10, 16 << 20
"""Of a deleted file that large a copy is kept, and of all files of a step together so much."""


_FEW = 10
"""Zombies that nobody would risk much for, where there are ten times as many."""


class Risk(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Undo(StrEnum):
    """What `undo` can promise."""

    EXACT = "exact"
    """Every byte and state comes back."""
    RESTART = "restart"
    """It runs again, as a new process."""
    NONE = "none"
    """What went is gone; the journal lists it."""


class ReclaimWay(StrEnum):
    MEMORY_RECLAIM = "memory.reclaim"
    """v2 from 5.19 on; `swappiness=0` where the kernel takes it."""
    MEMORY_HIGH = "memory.high"
    """Older v2: lowered for a moment and put back."""
    FORCE_EMPTY = "memory.force_empty"
    """v1: the whole subtree at once, in a child with a time limit."""
    NODE = "node"
    """The node's reclaim file, from 6.17 on: the whole host."""


class StopUnit(NamedTuple):
    """Gracefully, and wait until it is gone."""

    unit: str


class PlaceLink(NamedTuple):
    path: bytes
    target: bytes


class RemoveLinks(NamedTuple):
    paths: tuple[bytes, ...]


class PlaceFile(NamedTuple):
    path: bytes
    content: bytes


class SetFile(NamedTuple):
    """A value in a file of the kernel."""

    path: bytes
    value: bytes


class Reclaim(NamedTuple):
    parent: bytes
    way: ReclaimWay
    files: tuple[bytes, ...]
    """The control files to write to."""
    size: int
    """Bytes that the zombies below the parent hold."""
    takes_swapped: bool = False
    """Among them are pages that were swapped out and are still in memory: no reclaim of file pages alone takes these."""


class NamedFile(NamedTuple):
    path: bytes
    inode: int | None
    """As it was seen: another file of this name is left alone."""
    device: str | None = None
    """Of its file system, `major:minor`; None where files there have another one."""


class DropFiles(NamedTuple):
    """Let go of these files' cached pages; the files stay."""

    files: tuple[NamedFile, ...]


class RewriteFiles(NamedTuple):
    """Each is replaced by a copy of itself that is charged to the root cgroup: same name, content, owner, mode, times."""

    files: tuple[NamedFile, ...]


class DeleteFiles(NamedTuple):
    files: tuple[NamedFile, ...]


class RemoveSegments(NamedTuple):
    ids: tuple[int, ...]


class Flush(NamedTuple):
    """Write everything back, then let one cgroup die: the kernel then looks at dead writeback structures."""

    parent: bytes
    """Where the cgroup is made."""


class SwapIn(NamedTuple):
    devices: tuple[bytes, ...]


class DropCaches(NamedTuple):
    path: bytes = b"/proc/sys/vm/drop_caches"


class AskHuman(NamedTuple):
    """What we never do ourselves."""

    commands: tuple[str, ...]


Change = (
    StopUnit | PlaceLink | RemoveLinks | PlaceFile | SetFile | Reclaim | DropFiles | RewriteFiles | DeleteFiles
    | RemoveSegments | Flush | SwapIn | DropCaches | AskHuman
)  # fmt: skip


def kind_of(change: Change) -> str:
    """As documents call it: `stop_unit` for a StopUnit."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(change).__name__).lower()


_NAMED = 3


def few_names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more (--json lists all)" if more > 0 else "")


def details(change: Change) -> Iterator[tuple[str, str]]:
    """What a person wants to read of a change beside the title of its step, each line under a label."""
    match change:
        case PlaceLink(path=path, target=target):
            yield "link", f"{shown(path)} -> {shown(target)}"
        case RemoveLinks(paths=paths):
            yield "links", few_names([shown(path) for path in paths])
        case PlaceFile(path=path, content=content):
            yield "file", shown(path)
            yield from (("", line) for line in content.decode("utf-8", "replace").splitlines())
        case DropFiles(files=files) | RewriteFiles(files=files) | DeleteFiles(files=files):
            yield "files", few_names([shown(file.path) for file in files])
        case RemoveSegments(ids=ids):
            yield "segments", few_names([f"shmid {number}" for number in ids])
        case AskHuman(commands=commands):
            yield from (("type" if not number else "", command) for number, command in enumerate(commands))
        case StopUnit() | SetFile() | Reclaim() | Flush() | SwapIn() | DropCaches():
            return  # its title says it all
        case _:
            assert_never(change)


class Expected(NamedTuple):
    """What a step frees, given all steps before it; of a step and those that it stands in for, each alone."""

    zombies_freed: int | None
    """None: cannot be known before."""
    bytes_freed: int | None
    up_to: int
    """No more zombies than these can go."""
    why_unknown: str = ""
    """Why it cannot be known; where it is known, what stays beside and why."""


class Step(NamedTuple):
    n: int
    name: str
    """What consent is given to: `stop:ecs.service`."""
    recipe: str
    title: str
    change: Change
    why: str
    finding: str
    risk: Risk
    undo: Undo
    check: str
    """How a person sees that it worked."""
    expected: Expected | None
    needs_consent: bool
    instead_of: tuple[str, ...] = ()
    """Names of later steps that are not needed when this one is done: it frees the same zombies."""

    @property
    def is_for_people(self) -> bool:
        return isinstance(self.change, AskHuman)

    @property
    def touches_whole_host(self) -> bool:
        """Programs that have nothing to do with the zombies pay for it, too."""
        if isinstance(self.change, Reclaim):
            return self.change.parent == b"/" or self.change.way is ReclaimWay.NODE
        return isinstance(self.change, DropCaches | SwapIn)


class Plan(NamedTuple):
    id: str
    """The same for the same steps."""
    findings: tuple[str, ...]
    steps: tuple[Step, ...]
    zombies: int | None
    """That the plan is about. None: they could not be seen one by one."""
    out_of_reach: int | None
    """Of these, how many no step of ours can free."""
    makers: tuple[str, ...] = ()
    """Who goes on making them unless stopped."""

    @property
    def foreseen(self) -> int:
        """Zombies that go, as far as that is known; those of a step that stands in for another are counted there."""
        return sum(step.expected.zombies_freed or 0 for step in self.own_steps if step.expected and not step.instead_of)

    @property
    def perhaps(self) -> int:
        """Zombies that may go besides, by steps of which it cannot be known before."""
        open_ones = (step.expected for step in self.own_steps if step.expected and not step.instead_of)
        return sum(expected.up_to for expected in open_ones if expected.zombies_freed is None)

    @property
    def own_steps(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not step.is_for_people)

    def is_trifling(self, step: Step) -> bool:
        """It frees next to nothing of what the plan is about."""
        if step.expected is None or self.zombies is None:
            return False
        most = step.expected.up_to
        return most * 100 < self.zombies or (most <= _FEW and most * 10 < self.zombies) or not most

    @property
    def set_apart(self) -> tuple[Step, ...]:
        """Steps that need consent and that no line to paste should carry: somebody has to want each of them by itself."""
        return tuple(
            step
            for step in self.own_steps
            if step.needs_consent and (step.touches_whole_host or self.is_trifling(step))
        )

    @property
    def consents(self) -> tuple[str, ...]:
        """What a line to paste allows: of two ways to the same end the one that loses less, and nothing that is set apart."""
        apart = self.set_apart
        wanted = [step for step in self.own_steps if step.needs_consent and step not in apart]
        spared = {name for step in wanted for name in step.instead_of}
        return tuple(step.name for step in wanted if step.name not in spared)
