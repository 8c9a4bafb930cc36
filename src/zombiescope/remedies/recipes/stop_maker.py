# SPDX-License-Identifier: Apache-2.0
"""For people: whoever was seen to leave more zombies and is no unit that loops: the timer that starts it, a pod, a session. Until
it is stopped what is freed comes back. Printed, never done: nobody here knows what it is for."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.analysis.maker import unit_maker
from zombiescope.remedies.plan import AskHuman, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation

_MOST_MAKERS = 3


def propose_stop_maker(situation: Situation) -> Iterator[Draft]:
    looping = {unit_maker(loop.name) for loop in situation.loops}
    for maker, timer in situation.activity.growing[:_MOST_MAKERS]:
        if maker in looping:
            continue
        started = f", which {timer} starts" if timer else ""
        yield Draft(
            f"stop-maker:{maker}",
            f"stop {maker.partition(':')[2]}{started}, before anything of it is freed",
            AskHuman(_commands(maker, timer)),
            f"{maker} left more zombies while we looked: what is freed before it stops comes back",
            "zombie-growth",
            "zombiescope top",
            Risk.MEDIUM,
            Undo.NONE,
            maker=maker,
        )


def _commands(maker: str, timer: str | None) -> tuple[str, ...]:
    kind, _, name = maker.partition(":")
    if kind == "unit" and timer:
        return (f"systemctl stop {timer}   # then: {name} ends by itself, or systemctl stop {_typed(name)}",)
    if kind == "unit":
        return (f"systemctl stop {_typed(name)}",)
    if kind == "pod":
        return ("crictl pods -o json   # which one has this uid", "kubectl delete pod NAME, or scale its owner down")
    if kind == "session":
        return (f"loginctl terminate-user {name}",)
    return ("zombiescope top   # whose births go on", "stop what makes them by whatever starts it")


def _typed(unit: str) -> str:
    """As a shell takes it: all instances of a template, all units of a pattern."""
    return f"'{unit.replace('@.', '@*.')}'" if "@." in unit or "*" in unit else unit
