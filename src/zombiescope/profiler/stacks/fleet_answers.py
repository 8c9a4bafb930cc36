# SPDX-License-Identifier: Apache-2.0
"""What questions over many nodes are answered with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from zombiescope.facts.gap import Gap
from zombiescope.profiler.stacks.across_nodes import OfNodes
from zombiescope.profiler.stacks.flame_graph import FlameGraph, Key


class Group(NamedTuple):
    nodes: int
    captures: int
    samples: int


class Shift(Protocol):
    @property
    def mean(self) -> float: ...
    @property
    def other(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def p_value(self) -> float: ...
    @property
    def q_value(self) -> float: ...
    @property
    def is_found(self) -> bool: ...


class Judged(Protocol):
    @property
    def shifts(self) -> Sequence[Shift]: ...
    @property
    def too_few(self) -> str: ...
    @property
    def unsure(self) -> str: ...


Judge = Callable[[Sequence[tuple[Sequence[float], Sequence[float]]], int, int], Judged]


class Top(NamedTuple):
    group: Group
    shares: OfNodes
    gaps: tuple[Gap, ...]


class Flame(NamedTuple):
    group: Group
    graph: FlameGraph
    frames: list[Key]
    gaps: tuple[Gap, ...]


class Changed(NamedTuple):
    key: Key
    shift: Shift
    callers: tuple[str, ...]
    passed_to: Key | None
    """The function below it that has most of the change."""
    is_own: bool = False
    """Of the time that it takes itself, not with what it calls."""


class Difference(NamedTuple):
    where: Group
    against: Group
    compared: int
    found: tuple[Changed, ...]
    """The largest rise first, then what fell; those that only pass a change on are not among them."""
    passing: tuple[Changed, ...]
    """Found, too, but only pass on what one of those changed."""
    largest: tuple[Changed, ...]
    """Where nothing was found: what differs most, by chance as far as can be told."""
    too_few: str
    """Why nothing could be found; empty where something could."""
    unsure: str
    """Why a function that differs alone could have been missed."""
    graph: FlameGraph
    frames: list[Key]
    gaps: tuple[Gap, ...]


class Moment(NamedTuple):
    """Of one core: windows that follow each other."""

    node: str
    title: str
    core: int
    begin: int
    end: int
    samples: int
    share: float | None
    """The highest of its windows."""


class Moments(NamedTuple):
    group: Group
    moments: tuple[Moment, ...]
    nodes_with: int
    samples: int
    gaps: tuple[Gap, ...]


class Shipped(NamedTuple):
    title: str
    name: str
    """In the archive."""
    samples: int
    bytes_written: int | None
    """None: it was there already, and nothing was written."""
