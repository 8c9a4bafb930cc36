# SPDX-License-Identifier: Apache-2.0
"""Actions that ended in the middle, as after SIGKILL or a power cut: what they lowered may be low still, until `undo`."""

from __future__ import annotations

import os
from contextlib import suppress

from zombiescope.errors import ActionUndoneError, ObservationError, UsageError
from zombiescope.execution.journal import ActionFolder, read_entries, undo_line
from zombiescope.execution.undo import is_in_the_middle

_LOOKED_AT = 20
"""Of the newest: an action of long ago was told many times."""


def ended_in_the_middle(state: str, boot_id: str | None) -> list[str]:
    """Their names, newest first. What cannot be read is not ours to tell."""
    actions = ActionFolder(state)
    found = []
    with suppress(OSError, ObservationError):
        for name in reversed(actions.names()[-_LOOKED_AT:]):
            with suppress(OSError, UsageError, KeyError):
                if is_in_the_middle(read_entries(actions.folder(name)), boot_id):
                    found.append(name)
    return found


def is_one_at_work(state: str) -> bool:
    """Somebody holds the lock; asked without taking it, or whoever wants it would be sent away."""
    try:
        inode = os.stat(os.path.join(ActionFolder(state).place, "lock")).st_ino
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:  # noqa: PTH123
            return any("FLOCK" in line and f":{inode} " in line for line in locks)
    except OSError:
        return False


def refuse_in_the_middle(state: str, boot_id: str | None) -> None:
    """What an unfinished action lowered would be taken for what was there before."""
    names = ended_in_the_middle(state, boot_id)
    if names:
        raise ActionUndoneError(
            "an earlier action ended in the middle",
            f"{', '.join(names)}: what it changed is neither finished nor put back",
            f"nothing was changed; first: {undo_line(ActionFolder(state).folder(names[0]))}",
        )
