# SPDX-License-Identifier: Apache-2.0
"""Done by hand: drain the node and reboot it, where references hold zombies that nothing here can drop. Printed, never done."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.facts.names import zombies_said
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.plan import AskHuman, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation

REMEDIES = (Remedy.REBOOT,)


def propose(situation: Situation) -> Iterator[Draft]:
    wanted = situation.choices.of(Remedy.REBOOT)
    if wanted:
        yield Draft(
            "reboot",
            "drain this node and reboot it, once the maker is stopped",
            AskHuman(("kubectl cordon NODE", "kubectl drain NODE --ignore-daemonsets", "systemctl reboot")),
            f"{zombies_said(situation.choices.wanted[wanted[0]], 'are')} held by references that nobody could name; unless the "
            "maker is stopped first they come back",
            "pinned-other",
            "zombiescope scan after the boot",
            Risk.HIGH,
            Undo.NONE,
        )
