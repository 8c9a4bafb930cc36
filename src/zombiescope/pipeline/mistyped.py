# SPDX-License-Identifier: Apache-2.0
"""Words of a command line that stand for nothing on this host: an error that lists what there is, never a silent nothing."""

import os
from collections import Counter
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from zombiescope.analysis.autopsy import NOBODY, Body, names_of
from zombiescope.errors import UsageError
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown, unshown
from zombiescope.facts.pods import KnownPods
from zombiescope.host.access import Host, answers
from zombiescope.remedies.plan import Plan

_LISTED = 8
_OF_PATHS = ("delete", "rewrite", "reclaim")
_OF_THE_HOST = ("drop-caches", "drop-files", "flush", "remove-segments", "swap-in")
"""Steps that have no target in their names."""


def refuse_maker(
    glob: str | None, bodies: Collection[Body], others: Iterable[str] = (), known: KnownPods = NOBODY
) -> None:
    """`others`: makers that have left no zombie, such as every unit of this host. Where no zombie was seen nothing is refused."""
    if glob is None or not bodies:
        return
    makers = [maker for maker, _ in Counter(body.maker for body in bodies).most_common()]
    names = [*makers, *(maker for maker in others if maker not in makers)]
    if any(fnmatchcase(name, glob) for name in names):
        return
    if any(fnmatchcase(name, glob) for body in bodies for name in names_of(body, known)):
        return
    raise UsageError(
        f"no maker matches {shown(os.fsencode(glob))}",
        f"makers of zombies on this host: {_listed(makers)}",
        f"--maker {nearest(glob, names) or makers[0]}",
    )


def refuse_below(below: bytes | None, bodies: Collection[Body], host: Host, hierarchy: Hierarchy | Gap) -> None:
    """A live cgroup without zombies is no mistake, and neither is one that a recording did not keep."""
    if below is None or not bodies or isinstance(hierarchy, Gap):
        return
    parents = [parent for parent, _ in Counter(body.zombie.parent for body in bodies).most_common()]
    inside = below.rstrip(b"/") + b"/"
    if any(parent == below or parent.startswith(inside) for parent in parents) or answers(
        host.inode, hierarchy.place(below)
    ):
        return
    near = nearest(shown(below), [shown(parent) for parent in parents]) or shown(parents[0])
    raise UsageError(
        f"no such cgroup: {shown(below)}",
        f"zombies are below: {_listed([shown(parent) for parent in parents])}",
        f"--below {near}",
    )


def refuse_zombie(wanted: int | None, bodies: Collection[Body]) -> None:
    """Where no zombie could be seen one by one nothing is refused."""
    if wanted is None or not bodies or any(body.zombie.id == wanted for body in bodies):
        return
    raise UsageError(
        f"no zombie has the id {wanted}",
        f"it is none of the {len(bodies):,} that are here: it was released, or it died later",
        "zombiescope autopsy --limit 0 --json lists their ids",
    )


def refuse_consents(consents: Collection[str], plan: Plan, host: Host, hierarchy: Hierarchy | None) -> None:
    """What was a step when the plan was read and is none any more is no mistake, as far as that can be told."""
    known = [step.name for step in plan.steps]
    for name in sorted(set(consents) - {*known, *_OF_THE_HOST}):
        kind, _, target = name.partition(":")
        place = unshown(target)
        if kind == "reclaim" and hierarchy is not None:
            place = hierarchy.place(place)
        if kind in _OF_PATHS and place.startswith(b"/") and answers(host.inode, place):
            continue
        asking = [step.name for step in plan.own_steps if step.needs_consent]
        near = nearest(name, asking)
        raise UsageError(
            f"no step of this plan is called {shown(os.fsencode(name))}",
            f"steps that need consent: {_listed(asking)}",
            f"nothing was changed; --consent {near}" if near else "nothing was changed; zombiescope plan lists them",
        )


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was most likely meant; empty where none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 (only for who mistyped)

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.5)), "")


def _listed(words: Collection[str]) -> str:
    few = list(words)[:_LISTED]
    more = f" and {len(words) - len(few):,} more" if len(words) > len(few) else ""
    return ", ".join(few) + more if few else "none"
