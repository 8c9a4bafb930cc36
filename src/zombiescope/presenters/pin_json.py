# SPDX-License-Identifier: Apache-2.0
"""One pin, and one thing that would remove it, as `zombiescope.autopsy/1` writes them."""

from __future__ import annotations

from zombiescope.analysis.freeing import Remedy
from zombiescope.facts.names import shown
from zombiescope.facts.zombies import Pin
from zombiescope.presenters.document import Json


def render_pin(pin: Pin) -> Json:
    return {
        "kind": pin.kind,
        "path": None if pin.path is None else shown(pin.path),
        "path_in_fs": None if pin.path_in_fs is None else shown(pin.path_in_fs),
        "fstype": pin.fstype,
        "device": pin.device,
        "inode": pin.inode,
        "pages": pin.pages or 0,
        "sampled": pin.sampled,
        "mapped": pin.mapped,
        "dirty": pin.dirty,
        "holder": pin.holder,
    }


def render_remedy(remedy: Remedy) -> Json:
    entry: Json = {"action": remedy.action, "target": remedy.target}
    return {**entry, "together": True} if remedy.together else entry
