# SPDX-License-Identifier: Apache-2.0
"""Done by hand: whoever was seen to leave more zombies, or loops, and is no unit whose files we can judge: the timer that starts
it, a pod, a session, a unit of a recording. Until it is stopped what is freed comes back. Printed, never done: nobody here knows
what it is for. Where a maker stands for many, what must be found out is said instead: a pattern is nothing to stop."""

from collections.abc import Iterator
from shlex import quote
from typing import NamedTuple

from zombiescope.analysis.maker import maker_said, unit_maker
from zombiescope.facts.pods import PREFIX
from zombiescope.remedies.choice import Draft, Situation
from zombiescope.remedies.plan import AskHuman, Risk, Undo

_MOST_MAKERS = 3
_LISTS = {
    "docker": "docker ps --all --last 20",
    "podman": "podman ps --all --last 20",
    "ecs": "docker ps --all --last 20   # those that ECS started have its task in their labels",
    "buildkit": "docker buildx ls   # whose builds run",
    "lxc": "lxc-ls --fancy",
}
_CRI_LIST = "crictl ps --all --last 20"


class _Advice(NamedTuple):
    title: str
    commands: tuple[str, ...]


def stop_maker(situation: Situation) -> Iterator[Draft]:
    judged = {
        unit_maker(loop.name) for loop in situation.loops if situation.unit(loop.name)
    }  # they have recipes of their own
    growing = dict(situation.activity.growing)
    looping = dict.fromkeys(situation.activity.looping)
    for maker, timer in list({**looping, **growing}.items())[:_MOST_MAKERS]:
        if maker in judged or maker.startswith(PREFIX):  # and so has a workload
            continue
        advice = _advice(maker, timer)
        is_seen = (
            "is restarted over and over and has left zombies"
            if maker in looping
            else "left more zombies while we looked"
        )
        yield Draft(
            f"stop-maker:{maker}",
            f"{advice.title}, before anything of it is freed",
            AskHuman(advice.commands),
            f"{maker_said(maker)} {is_seen}: what is freed before it stops comes back",
            "crash-looping-unit" if maker in looping else "zombie-growth",
            "zombiescope top",
            Risk.MEDIUM,
            Undo.NONE,
            maker=maker,
        )


def _advice(maker: str, timer: str | None) -> _Advice:
    kind, _, name = maker.partition(":")
    match kind:
        case "unit":
            return _unit(name, timer)
        case "pod":
            return _pod(name)
        case "session":
            return _session(name)
        case "container":
            title = f"find out which containers {name} starts over and over, and stop what asks for them"
            return _Advice(title, (_LISTS.get(name, _CRI_LIST), "zombiescope top   # whose births continue"))
        case _:
            title = f"find out what makes {name or maker}, and stop it by whatever starts it"
            return _Advice(title, ("zombiescope top   # whose births continue",))


def _unit(name: str, timer: str | None) -> _Advice:
    is_one = name.endswith(".service") and "@." not in name and "*" not in name
    if timer:
        rest = f"{name} ends by itself" + (f", or systemctl stop {quote(name)}" if is_one else "")
        return _Advice(f"stop {name}, which {timer} starts", (f"systemctl stop {quote(timer)}   # then: {rest}",))
    if is_one:
        return _Advice(f"stop {name}", (f"systemctl stop {quote(name)}",))
    if name == "user@.service":
        return _session("*")
    if "@." not in name and "*" not in name:  # a slice or a scope: whoever put something into it
        listed = f"systemd-cgls --unit {quote(name)}   # what runs in it"
        return _Advice(f"find out what starts and ends in {name}, and stop that", (listed,))
    many = quote(name.replace("@.", "@*."))
    return _Advice(
        f"find out what starts the units {name}, and stop that",
        (
            f"systemctl list-units --all {many}   # those of this moment",
            f"journalctl --boot --lines 20 --unit {many}   # who started the last ones",
        ),
    )


_COLUMNS = "UID:.metadata.uid,NAMESPACE:.metadata.namespace,POD:.metadata.name"


def _pod(name: str) -> _Advice:
    if "*" in name:
        latest = "crictl pods --last 20   # the latest: which names come again and again"
        return _Advice(
            "find out which workload's pods come and go, and scale it down", (latest, "kubectl get pods -A -o wide")
        )
    return _Advice(
        f"stop the pod with the uid {name}",
        (
            "crictl pods -o json   # which one has this uid",
            f"kubectl get pods -A -o custom-columns={_COLUMNS} | grep {quote(name)}   # or so; then scale its owner down",
        ),
    )


def _session(name: str) -> _Advice:
    if "*" in name:
        return _Advice(
            "find out whose sessions come and go, and stop what logs in",
            ("loginctl list-sessions", "journalctl --boot --lines 20 --unit systemd-logind   # who logged in last"),
        )
    return _Advice(
        f"stop what logs in as user {name}",
        (
            f"loginctl user-status {quote(name)}",
            f"loginctl terminate-user {quote(name)}   # ends everything of this user",
        ),
    )
