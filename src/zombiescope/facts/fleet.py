# SPDX-License-Identifier: Apache-2.0
"""Many nodes, one record each: what sets them apart (labels) and how they are (a few numbers). Never raw series."""

from collections.abc import Mapping
from typing import NamedTuple

from zombiescope.facts.gap import Gap


class FleetNode(NamedTuple):
    name: str
    labels: Mapping[str, str]
    zombies: int | None = None
    live: int | None = None
    counted: int | None = None
    growth_per_hour: float | None = None
    reached_at: float | None = None
    """When the next threshold is reached, seconds since the epoch."""
    findings: Mapping[str, str] = {}
    """Present ones: id and severity."""
    saturated_seconds: float | None = None
    """Core seconds without time but for the kernel, in the last hour."""
    resets: float | None = None
    """Of network cards, in the last day."""
    restarts: float | None = None
    """Of looping units, in the last hour."""
    sick_since: float | None = None
    """When it was first seen above a threshold, where several documents of it tell."""
    gaps: tuple[Gap, ...] = ()


class Fleet(NamedTuple):
    taken_at: float
    source: str
    nodes: tuple[FleetNode, ...]
    matchers: Mapping[str, tuple[str, str]] = {}
    """Of a server: the label and its value by which a node is found there again."""
    gaps: tuple[Gap, ...] = ()
    addresses: Mapping[str, str] = {}
    """Of a server: where it scrapes the agent of a node, as its `instance` label says."""


class SeriesSeen(NamedTuple):
    """One series that is asked for, as the server has it."""

    name: str
    why: str
    nodes: int
    oldest_seconds: float | None
    """Age of its oldest last sample."""
    enabled_by: str
    """What makes it appear: a flag, a rule."""
    is_needed: bool
    is_rule: bool = False
    """Written by a recording rule: `nodes` counts its series."""
