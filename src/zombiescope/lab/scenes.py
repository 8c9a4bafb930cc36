# SPDX-License-Identifier: Apache-2.0
"""Where an incident is played and who crash-loops there: processes of the lab in its subtree, or a real systemd unit in a slice."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from zombiescope.errors import ActionFailedError
from zombiescope.lab import units
from zombiescope.lab.leak import LeakOrder, leak
from zombiescope.lab.places import tmpfs_folder
from zombiescope.lab.runs import Run

AGENT = "unused-agent"
REAL_LIVES = 12
"""Of a real unit: systemd takes a second for each. What is asked beyond is lived before, in compressed time."""
_FASTEST_PER_MINUTE = 60_000.0
_PATIENCE_SECONDS = 300.0
Advance = Callable[[int], None]


class Answer(NamedTuple):
    """What a doctor has to say of a scene."""

    origin: str
    maker: str
    """Part of the maker's name."""
    first_remedies: tuple[str, ...]


class Scene(Protocol):
    truth: Answer
    node: str
    """The cgroup that holds the dead, the pods and the neighbour."""
    told: str
    watch_seconds: float
    """How long services are watched before a plan."""

    def set_up(self) -> None: ...

    def crash_loop(self, count: int, advance: Advance) -> int:
        """How many it left."""
        ...

    def has_ended(self) -> bool:
        """Whether what made them is at rest after the cure."""
        ...


class LabScene:
    """No systemd: the lab's staff lives the agent's lives."""

    truth = Answer("pinned-shared-memory", AGENT, ("delete-file",))
    told = "each life is a process of the lab's"
    watch_seconds = 1.0

    def __init__(self, run: Run) -> None:
        self._run = run
        self.node = f"{run.subtree}/node"

    def set_up(self) -> None:
        self._run.hierarchy.make_parents(self.node)

    def crash_loop(self, count: int, advance: Advance) -> int:
        return len(leak(RunBelow(self._run, self.node), _order(count), advance).made)

    def has_ended(self) -> bool:
        return True


class UnitScene:
    """A real unit in a slice of its own; apply has to stop it."""

    truth = Answer("crash-looping-unit", "unit:", ("stop-unit", "limit-restarts"))
    told = f"the last {REAL_LIVES} lives and all that follow are a real systemd unit's, the others compressed time"
    watch_seconds = 8.0

    def __init__(self, run: Run) -> None:
        units.require_systemd()
        self._run = run
        self.node = f"/{units.slice_of(run.name)}"

    def set_up(self) -> None:
        self._run.journal.intend("units", slice=units.slice_of(self._run.name))
        units.start_anchor(self._run.name)
        self._run.hierarchy.make_parents(self.node)

    def crash_loop(self, count: int, advance: Advance) -> int:
        agent = units.agent_of(self._run.name)
        before = leak(RunBelow(self._run, self.node), _order(max(count - REAL_LIVES, 1), place=agent), advance)
        folder = tmpfs_folder(self._run.name)
        units.start_agent(self._run.name, folder)
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while (lives := _lives(folder)) < REAL_LIVES:
            if time.monotonic() > give_up:
                raise ActionFailedError("the unit does not crash-loop", f"{lives} lives", "zombiescope lab clean")
            time.sleep(0.2)
            advance(len(before.made) + lives)
        return len(before.made) + lives

    def has_ended(self) -> bool:
        state = units.systemctl("show", "-p", "ActiveState", "--value", units.agent_of(self._run.name)).strip()
        return state in {"inactive", "failed"}


def scene_of(run: Run, *, real_unit: bool) -> Scene:
    return UnitScene(run) if real_unit else LabScene(run)


def _order(count: int, place: str | None = None) -> LeakOrder:
    return LeakOrder(AGENT, _FASTEST_PER_MINUTE, 60 * count / _FASTEST_PER_MINUTE, "service", "tmpfs", place)


def _lives(folder: str) -> int:
    return sum(name.startswith("life-") for name in os.listdir(folder))


class RunBelow(Run):
    """The same run, with everything below another cgroup."""

    def __init__(self, run: Run, top: str) -> None:
        super().__init__(run.name, run.hierarchy, run.journal)
        self._top = top

    @property
    def subtree(self) -> str:
        return self._top
