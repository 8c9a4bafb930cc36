# SPDX-License-Identifier: Apache-2.0
"""The list of rules, in the order in which findings are shown; chain, sentence, report and pages derive from what each declares.
And what is often tried first against some of them and is known not to help here, with the reason."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Finding
from zombiescope.diagnosis.rules import (
    costly_reclaim_walk,
    costly_sweep,
    cpu_shortage,
    cpu_steal,
    cpu_throttling,
    crash_looping_unit,
    image_risk,
    looping_container,
    memory_shortage,
    nic_reset,
    oom_dumps,
    pinned,
    real_time_hog,
    reclaim_pressure,
    saturated_core,
    starved_softirq,
    unneeded_agent,
    visible_leak,
    zombie_growth,
    zombie_population,
)


class Rule(Protocol):
    """What a file of `rules/` has to have."""

    @property
    def FINDING(self) -> Declaration: ...  # noqa: N802 (a constant of the file)

    def judge(self, case: Case) -> Finding: ...


RULES: tuple[Rule, ...] = (
    nic_reset,
    starved_softirq,
    saturated_core,
    costly_sweep,
    costly_reclaim_walk,
    reclaim_pressure,
    cpu_throttling,
    zombie_population,
    zombie_growth,
    visible_leak,
    *pinned.RULES,
    crash_looping_unit,
    looping_container,
    unneeded_agent,
    image_risk,
    cpu_steal,
    cpu_shortage,
    real_time_hog,
    oom_dumps,
    memory_shortage,
)
FINDINGS: Mapping[str, Declaration] = {rule.FINDING.id: rule.FINDING for rule in RULES}


_ZOMBIES = frozenset({"zombie-population"})
_WALKS = frozenset({"costly-sweep", "costly-reclaim-walk"})
"""Where the time was seen to go into cgroups: a core that is held, or a card that is reset, may be so for another reason."""
_LOOPS = frozenset({"crash-looping-unit", "looping-container", "image-risk"})
_NOT_CACHE = frozenset({"pinned-shared-memory", "pinned-swap"})
_HELD = {
    frozenset({"pinned-shared-memory"}): "shared memory",
    frozenset({"pinned-swap"}): "swap",
    _NOT_CACHE: "shared memory or swap",
}


class UselessAdvice(NamedTuple):
    what: str
    why: str


_KNOWN: tuple[tuple[frozenset[str], frozenset[str], UselessAdvice], ...] = (
    (
        _ZOMBIES,
        _ZOMBIES,
        UselessAdvice("cgdelete", "a zombie has no directory any more: there is nothing left to delete"),
    ),
    (
        _ZOMBIES,
        _ZOMBIES,
        UselessAdvice("remounting the cgroup file systems", "a charge in the kernel holds the zombie, not the mount"),
    ),
    (
        _ZOMBIES,
        _NOT_CACHE,
        UselessAdvice(
            "drop_caches", "it drops only clean file pages: shared memory and swap stay, and so do their zombies"
        ),
    ),
    (
        _ZOMBIES,
        frozenset({"pinned-shared-memory"}),
        UselessAdvice(
            "reclaim (memory.reclaim, memory.high, force_empty)",
            "without swap it frees no shared memory; with swap it only moves it there and fills the swap, and what is paged out "
            "before its cgroup dies makes zombies that no reclaim frees",
        ),
    ),
    (
        _ZOMBIES,
        _WALKS,
        UselessAdvice("huge pages", "the time goes into walking cgroups, not pages: huge pages change nothing"),
    ),
    (
        _ZOMBIES,
        _WALKS,
        UselessAdvice("another allocator", "what the dead hold is cache and shared memory, which no allocator manages"),
    ),
    (
        _ZOMBIES,
        _WALKS,
        UselessAdvice(
            "CPU affinity", "the walk runs on whichever core asks, and softirqs follow the network card, not the job"
        ),
    ),
    (
        _ZOMBIES | {"image-risk"},
        _LOOPS,
        UselessAdvice("adding nodes", "a new node from the same image starts the same loop"),
    ),
    (
        frozenset({"cpu-throttling"}),
        frozenset({"cpu-throttling"}),
        UselessAdvice(
            "freeing memory to stop throttling", "cpu.max throttles by its own clock: reclaim does not cause it"
        ),
    ),
)


def useless_of(present: Iterable[str]) -> tuple[UselessAdvice, ...]:
    """Those of which one of each set of findings is there. Where page cache holds some zombies too, what does not help against
    the other kinds may well help against it: then it is said of which kinds it is true."""
    names = frozenset(present)
    found = [(other, advice) for one, other, advice in _KNOWN if one & names and other & names]
    if "pinned-page-cache" not in names:
        return tuple(advice for _, advice in found)
    return tuple(
        advice._replace(what=f"{advice.what} against {_HELD[other & names]}") if other <= _NOT_CACHE else advice
        for other, advice in found
    )
