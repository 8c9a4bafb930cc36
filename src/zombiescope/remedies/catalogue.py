# SPDX-License-Identifier: Apache-2.0
"""The list of recipes, in the order of a plan: origin before mechanism before symptom; least harm first; people's work last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.recipes import (
    delete_shared_files,
    disable_unneeded_agent,
    drain_and_reboot,
    drop_caches,
    drop_files,
    end_holders,
    fix_unit_in_image,
    flush_writeback,
    in_use,
    limit_restarts,
    newer_kernel,
    own_slice,
    reclaim_parent,
    remove_segments,
    rewrite_shared_files,
    stop_container,
    stop_looping_unit,
    stop_maker,
    stop_workload,
    swap_in,
    vendor_reaper,
)
from zombiescope.remedies.situation import Draft, Situation


class RecipeFile(Protocol):
    """What a file of `recipes/` has to have."""

    __name__: str

    @property
    def REMEDIES(self) -> tuple[Remedy, ...]:  # noqa: N802 (a constant of the file)
        """What it carries out."""
        ...

    def propose(self, situation: Situation) -> Iterator[Draft]: ...


_IN_ORDER: tuple[RecipeFile, ...] = (
    stop_workload,
    stop_container,
    stop_maker,
    limit_restarts,
    stop_looping_unit,
    own_slice,
    disable_unneeded_agent,
    fix_unit_in_image,
    flush_writeback,
    drop_files,
    rewrite_shared_files,
    delete_shared_files,
    remove_segments,
    vendor_reaper,
    reclaim_parent,
    swap_in,
    drop_caches,
    in_use,
    end_holders,
    drain_and_reboot,
    newer_kernel,
)
RECIPES: Mapping[str, RecipeFile] = {
    str(recipe.__name__).rpartition(".")[2].replace("_", "-"): recipe for recipe in _IN_ORDER
}
"""By the name that a step of a plan has for it."""
