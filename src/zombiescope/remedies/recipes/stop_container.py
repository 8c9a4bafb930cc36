# SPDX-License-Identifier: Apache-2.0
"""Done by hand: a container that Docker restarts over and over is kept from starting again, and stopped. Printed, never done."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.plan import AskHuman, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation

REMEDIES = (Remedy.STOP_CONTAINER,)

_MOST_CONTAINERS = 3


def propose(situation: Situation) -> Iterator[Draft]:
    for loop in [loop for loop in situation.loops if loop.kind == "container"][:_MOST_CONTAINERS]:
        name = quote(loop.name)
        yield Draft(
            f"stop-container:{loop.name}",
            f"stop the container {loop.name}, which Docker restarts over and over",
            AskHuman((f"docker update --restart=no {name}", f"docker stop {name}", f"docker logs --tail 20 {name}")),
            loop.why,
            "looping-container",
            f"docker inspect --format '{{{{.State.Status}}}}' {name}",
            Risk.MEDIUM,
            Undo.NONE,
        )
