# SPDX-License-Identifier: Apache-2.0
"""The list of recipes, in the order of a plan: origin before mechanism before symptom; least harm first; people's work last."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.choice import Draft, Situation
from zombiescope.remedies.recipes import (
    by_hand,
    disk_memory,
    shared_memory,
    stop_maker,
    stop_workload,
    units,
)


class Recipe(NamedTuple):
    propose: Callable[[Situation], Iterator[Draft]]
    remedies: tuple[Remedy, ...]
    """What it carries out."""


RECIPES: Mapping[str, Recipe] = {
    "stop-workload": Recipe(stop_workload.stop_workload, (Remedy.STOP_WORKLOAD,)),
    "stop-container": Recipe(stop_workload.stop_container, (Remedy.STOP_CONTAINER,)),
    "stop-maker": Recipe(stop_maker.stop_maker, (Remedy.STOP_MAKER,)),
    "limit-restarts": Recipe(units.limit_restarts, (Remedy.LIMIT_RESTARTS,)),
    "stop-looping-unit": Recipe(units.stop_looping_unit, (Remedy.STOP_UNIT,)),
    "own-slice": Recipe(units.own_slice, (Remedy.OWN_SLICE,)),
    "disable-unneeded-agent": Recipe(units.disable_unneeded_agent, (Remedy.STOP_UNIT,)),
    "fix-unit-in-image": Recipe(units.fix_unit_in_image, (Remedy.FIX_UNIT_IN_IMAGE,)),
    "flush-writeback": Recipe(disk_memory.flush_writeback, (Remedy.FLUSH,)),
    "drop-files": Recipe(disk_memory.drop_files, (Remedy.DROP_FILE,)),
    "rewrite-shared-files": Recipe(shared_memory.rewrite_shared_files, (Remedy.DELETE_FILE,)),
    "delete-shared-files": Recipe(shared_memory.delete_shared_files, (Remedy.DELETE_FILE,)),
    "remove-segments": Recipe(shared_memory.remove_segments, (Remedy.REMOVE_SEGMENT,)),
    "vendor-reaper": Recipe(disk_memory.vendor_reaper, (Remedy.RECLAIM_PARENT,)),
    "reclaim-parent": Recipe(disk_memory.reclaim_parent, (Remedy.RECLAIM_PARENT,)),
    "swap-in": Recipe(disk_memory.swap_in, (Remedy.SWAP_IN,)),
    "drop-caches": Recipe(disk_memory.drop_caches, (Remedy.RECLAIM_PARENT,)),
    "in-use": Recipe(shared_memory.in_use, (Remedy.DELETE_FILE, Remedy.REMOVE_SEGMENT)),
    "end-holders": Recipe(by_hand.end_holders, tuple(by_hand.HELD_BY)),
    "drain-and-reboot": Recipe(by_hand.drain_and_reboot, (Remedy.REBOOT,)),
    "newer-kernel": Recipe(by_hand.newer_kernel, (Remedy.NEWER_KERNEL,)),
}
"""By the name that a step of a plan has for it."""
