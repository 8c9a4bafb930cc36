# SPDX-License-Identifier: Apache-2.0
"""The list of recipes, in the order of a plan: origin before mechanism before symptom; least harm first; people's work last."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from zombiescope.remedies.recipes.delete_shared_files import propose_delete_shared_files
from zombiescope.remedies.recipes.disable_unneeded_agent import propose_disable_unneeded_agent
from zombiescope.remedies.recipes.drain_and_reboot import propose_drain_and_reboot
from zombiescope.remedies.recipes.drop_caches import propose_drop_caches
from zombiescope.remedies.recipes.drop_files import propose_drop_files
from zombiescope.remedies.recipes.end_holders import propose_end_holders
from zombiescope.remedies.recipes.fix_unit_in_image import propose_fix_unit_in_image
from zombiescope.remedies.recipes.flush_writeback import propose_flush_writeback
from zombiescope.remedies.recipes.in_use import propose_in_use
from zombiescope.remedies.recipes.limit_restarts import propose_limit_restarts
from zombiescope.remedies.recipes.newer_kernel import propose_newer_kernel
from zombiescope.remedies.recipes.own_slice import propose_own_slice
from zombiescope.remedies.recipes.reclaim_parent import propose_reclaim_parent
from zombiescope.remedies.recipes.remove_segments import propose_remove_segments
from zombiescope.remedies.recipes.rewrite_shared_files import propose_rewrite_shared_files
from zombiescope.remedies.recipes.stop_container import propose_stop_container
from zombiescope.remedies.recipes.stop_looping_unit import propose_stop_looping_unit
from zombiescope.remedies.recipes.stop_maker import propose_stop_maker
from zombiescope.remedies.recipes.stop_workload import propose_stop_workload
from zombiescope.remedies.recipes.swap_in import propose_swap_in
from zombiescope.remedies.recipes.vendor_reaper import propose_vendor_reaper
from zombiescope.remedies.situation import Draft, Situation

RECIPES: tuple[Callable[[Situation], Iterator[Draft]], ...] = (
    propose_stop_workload,
    propose_stop_container,
    propose_stop_maker,
    propose_limit_restarts,
    propose_stop_looping_unit,
    propose_own_slice,
    propose_disable_unneeded_agent,
    propose_fix_unit_in_image,
    propose_flush_writeback,
    propose_drop_files,
    propose_rewrite_shared_files,
    propose_delete_shared_files,
    propose_remove_segments,
    propose_vendor_reaper,
    propose_reclaim_parent,
    propose_swap_in,
    propose_drop_caches,
    propose_in_use,
    propose_end_holders,
    propose_drain_and_reboot,
    propose_newer_kernel,
)
