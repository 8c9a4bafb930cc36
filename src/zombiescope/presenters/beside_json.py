# SPDX-License-Identifier: Apache-2.0
"""The part of `zombiescope.autopsy/1` for hosts whose zombies could not be walked: files by parent, and pins that hold no page."""

from __future__ import annotations

from zombiescope.analysis.freeing import remedies_on
from zombiescope.facts.beside import Beside
from zombiescope.facts.names import shown
from zombiescope.facts.page_free_pins import DeletedTasks, PageFreePins, SocketCandidates
from zombiescope.facts.page_pins import PinnedFile
from zombiescope.presenters.document import Json
from zombiescope.presenters.pin_json import render_pin, render_remedy


def render_beside(beside: Beside, limit: int, *, with_files: bool) -> Json:
    body: Json = {}
    if with_files:
        body["pinned_files"] = [_pinned_file(file) for file in (beside.files[:limit] if limit else beside.files)]
    if beside.pins is not None:
        body["page_free_pins"] = _page_free(beside.pins)
    return body


def _pinned_file(file: PinnedFile) -> Json:
    return {
        "parent": shown(file.parent),
        **render_pin(file.pin),
        "proof": file.proof,
        "holders": list(file.holders),
        "freed_by": [render_remedy(remedy) for remedy in remedies_on(file.pin, file.parent)],
    }


def _page_free(pins: PageFreePins) -> Json:
    """Candidates where no walk could join them to their zombies; a task with a former path is proof."""
    tasks = pins.tasks.tasks if isinstance(pins.tasks, DeletedTasks) else ()
    sockets = pins.sockets.dead if isinstance(pins.sockets, SocketCandidates) else ()
    return {
        "tasks": [
            {"path": shown(task.cgroup or b"?"), "process": task.process, "state": task.state, "parent": task.parent}
            for task in tasks
        ],
        "sockets": [{"id": one.cgroup, "protocol": one.protocol, "inode": one.inode} for one in sockets],
    }
