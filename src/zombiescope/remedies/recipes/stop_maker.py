# SPDX-License-Identifier: Apache-2.0
"""Done by hand: whoever was seen to leave more zombies, or loops, and is no unit whose files we can judge: the timer that starts
it, a pod, a session, a unit of a recording. Until it is stopped what is freed comes back. Printed, never done: nobody here knows
what it is for. Where a maker stands for many, what must be found out is said instead: a pattern is nothing to stop."""

from collections.abc import Iterator
from shlex import quote

from zombiescope.analysis.maker import maker_said, unit_maker
from zombiescope.facts.pods import PREFIX
from zombiescope.remedies.choice import Draft, Situation
from zombiescope.remedies.plan import AskHuman, Risk, Undo

_LISTS = {
    "docker": "docker ps --all --last 20",
    "podman": "podman ps --all --last 20",
    "ecs": "docker ps --all --last 20   # those that ECS started have its task in their labels",
    "buildkit": "docker buildx ls   # whose builds run",
    "lxc": "lxc-ls --fancy",
}


_Advice = tuple[str, tuple[str, ...]]
"""A title, and commands."""


def stop_maker(situation: Situation) -> Iterator[Draft]:
    judged = {
        unit_maker(loop.name) for loop in situation.loops if situation.unit(loop.name)
    }  # they have recipes of their own
    growing = dict(situation.activity.growing)
    looping = dict.fromkeys(situation.activity.looping)
    for maker, timer in list({**looping, **growing}.items())[:3]:
        if maker in judged or maker.startswith(PREFIX):  # and so has a workload
            continue
        title, commands = _advice(maker, timer)
        is_seen = (
            "is restarted over and over and has left zombies"
            if maker in looping
            else "left more zombies while we looked"
        )
        yield Draft(
            f"stop-maker:{maker}",
            f"{title}, before anything of it is freed",
            AskHuman(commands),
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
            return (title, (_LISTS.get(name, "crictl ps --all --last 20"), "zombiescope top   # whose births continue"))
        case _:
            title = f"find out what makes {name or maker}, and stop it by whatever starts it"
            return (title, ("zombiescope top   # whose births continue",))


def _unit(name: str, timer: str | None) -> _Advice:
    is_one = name.endswith(".service") and "@." not in name and "*" not in name
    if timer:
        rest = f"{name} ends by itself" + (f", or systemctl stop {quote(name)}" if is_one else "")
        return (f"stop {name}, which {timer} starts", (f"systemctl stop {quote(timer)}   # then: {rest}",))
    if is_one:
        return (f"stop {name}", (f"systemctl stop {quote(name)}",))
    if name == "user@.service":
        return _session("*")
    if "@." not in name and "*" not in name:  # a slice or a scope: whoever put something into it
        listed = f"systemd-cgls --unit {quote(name)}   # what runs in it"
        return (f"find out what starts and ends in {name}, and stop that", (listed,))
    many = quote(name.replace("@.", "@*."))
    return (
        f"find out what starts the units {name}, and stop that",
        (
            f"systemctl list-units --all {many}   # those of this moment",
            f"journalctl --boot --lines 20 --unit {many}   # who started the last ones",
        ),
    )


def _pod(name: str) -> _Advice:
    if "*" in name:
        latest = "crictl pods --last 20   # the latest: which names come again and again"
        return (
            "find out which workload's pods come and go, and scale it down",
            (latest, "kubectl get pods -A -o wide"),
        )
    return (
        f"stop the pod with the uid {name}",
        (
            "crictl pods -o json   # which one has this uid",
            (
                "kubectl get pods -A -o custom-columns=UID:.metadata.uid,NAMESPACE:.metadata.namespace,"
                f"POD:.metadata.name | grep {quote(name)}   # or so; then scale its owner down"
            ),
        ),
    )


def _session(name: str) -> _Advice:
    if "*" in name:
        return (
            "find out whose sessions come and go, and stop what logs in",
            ("loginctl list-sessions", "journalctl --boot --lines 20 --unit systemd-logind   # who logged in last"),
        )
    return (
        f"stop what logs in as user {name}",
        (
            f"loginctl user-status {quote(name)}",
            f"loginctl terminate-user {quote(name)}   # ends everything of this user",
        ),
    )
