# SPDX-License-Identifier: Apache-2.0
"""Files in memory that keep zombies and that nobody has open, by folder: consent is given folder by folder."""

from __future__ import annotations

from collections import defaultdict

from zombiescope.analysis.freeing import Action
from zombiescope.remedies.choice import Lever, least_harm_first, may_be_deleted
from zombiescope.remedies.situation import Situation

_MOST_FOLDERS = 20


def unused_by_folder(situation: Situation) -> list[tuple[bytes, list[Lever]]]:
    """Most files first. What is still being written is left out, whatever it holds."""
    folders: dict[bytes, list[Lever]] = defaultdict(list)
    in_use = situation.still_written | situation.levers.files_in_use.keys()
    for lever in situation.choices.of(Action.DELETE_FILE):
        if may_be_deleted(lever.target) and lever.target not in in_use:
            folders[lever.target.rpartition(b"/")[0]].append(lever)
    most = sorted(folders.items(), key=lambda item: (-len(item[1]), item[0]))[:_MOST_FOLDERS]
    return [(folder, sorted(levers, key=least_harm_first)) for folder, levers in most]
