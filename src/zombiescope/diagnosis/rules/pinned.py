# SPDX-License-Identifier: Apache-2.0
"""What holds zombies: a finding for each sort of hold, all judged alike, by how many it holds and who made those."""

from collections import Counter
from typing import NamedTuple

from zombiescope.analysis.maker import maker_said
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.stock import stock_severity
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import share_said
from zombiescope.facts.remedies import Remedy, remedy_of
from zombiescope.facts.zombies import Remains

_MOST_MAKERS = 3
"""Named as evidence: whoever wants all of them asks for an autopsy."""
_AS_TOLD = {Remedy.DROP_FILE: Remedy.RECLAIM_PARENT}
"""Of a kind: which of its levers lets go of cached pages is for the plan."""

_MADE_BY = ("crash-looping-unit", "looping-container", "zombie-growth")


_DECLARED = (
    Declaration(
        id="pinned-page-cache",
        title="Page cache holds the dead",
        role=Role.MECHANISM,
        explained_by=_MADE_BY,
        remedies=(Remedy.RECLAIM_PARENT,),
        pins=frozenset({"page_cache"}),
        held_by="cached file pages",
        thing="zombies held by page cache",
        link="cached file pages keep the dead cgroups",
        what="Cached pages of files on disk hold the zombies: the dead cgroup was the first to read or write them.",
        matters="The files are usually still in use, so the cache stays for weeks.",
        do="Drop the cache of the files that are named, or reclaim memory at the nearest live parent. The files stay.",
        judged_by=("pin_share",),
        next="zombiescope plan",
        proven_by="page-cache",
    ),
    Declaration(
        id="pinned-shared-memory",
        title="Shared memory holds the dead",
        role=Role.MECHANISM,
        explained_by=_MADE_BY,
        remedies=(Remedy.DELETE_FILE, Remedy.REMOVE_SEGMENT, Remedy.RESTART_PROCESS),
        pins=frozenset({"tmpfs", "memfd", "shared_anon", "sysv_shm"}),
        held_by="shared memory",
        thing="zombies held by shared memory",
        link="shared memory keeps the dead cgroups",
        what="Shared memory holds the zombies: tmpfs files, memfds, shared mappings or System V segments.",
        matters=(
            "Reclaim cannot free it, and dropping caches does nothing. It goes with its file, its segment or the "
            "process that holds it."
        ),
        do=(
            "Rewrite or delete the files that nobody has open, remove segments that nobody has attached, or restart "
            "the holder."
        ),
        judged_by=("pin_share",),
        next="zombiescope plan",
        proven_by="tmpfs",
    ),
    Declaration(
        id="pinned-swap",
        title="Swap holds the dead",
        role=Role.MECHANISM,
        explained_by=_MADE_BY,
        remedies=(Remedy.SWAP_IN, Remedy.RECLAIM_PARENT),
        pins=frozenset({"swap"}),
        held_by="pages in swap",
        thing="zombies held by swap",
        link="pages in swap keep the dead cgroups",
        what="The zombies' memory is in swap.",
        matters="Reclaim works on memory, not on swap, so it never reaches them.",
        do="Bring the memory back from swap (swapoff, then swapon) when twice as much memory is free.",
        judged_by=("pin_share",),
        next="zombiescope plan",
        proven_by="swap",
    ),
    Declaration(
        id="pinned-writeback",
        title="Unwritten files hold the dead",
        role=Role.MECHANISM,
        explained_by=_MADE_BY,
        remedies=(Remedy.FLUSH,),
        pins=frozenset({"writeback"}),
        held_by="files that were dirty when they died",
        thing="zombies held by writeback",
        link="unwritten file data keeps the dead cgroups",
        what="Files had unwritten data when the cgroup died; the kernel's writeback record of that cgroup keeps it.",
        matters="It also happens on kernels that hand the pages of the dead to their parent.",
        do="Write everything back (sync), then let one cgroup die: the kernel then looks at the old records.",
        judged_by=("pin_share",),
        next="zombiescope plan",
        proven_by="writeback",
    ),
    Declaration(
        id="pinned-other",
        title="Something else than pages holds the dead",
        role=Role.MECHANISM,
        explained_by=_MADE_BY,
        remedies=(
            Remedy.REBOOT,
            Remedy.RESTART_PROCESS,
            Remedy.CLOSE_SOCKET,
            Remedy.REAP_PROCESS,
            Remedy.UNMOUNT,
        ),
        pins=frozenset({"socket", "task", "namespace", "anon", "unevictable", "child", "other"}),
        held_by="sockets, tasks, namespaces or locked memory",
        thing="zombies held by something else",
        link="other references keep the dead cgroups",
        what=(
            "Something other than pages holds the zombies: sockets, unreaped processes, namespaces, locked memory, "
            "or references that nothing explains."
        ),
        matters="No lever on memory frees them.",
        do=(
            "Close the sockets, reap the processes or restart the holder that the autopsy names. What has no name "
            "goes only with a reboot."
        ),
        judged_by=("pin_share",),
        next="zombiescope autopsy",
        proven_by="sockets",
    ),
)


class PinRule(NamedTuple):
    FINDING: Declaration

    def judge(self, case: Case) -> Finding:
        return _judge(case, self.FINDING)


RULES = tuple(map(PinRule, _DECLARED))


def _judge(case: Case, rule: Declaration) -> Finding:
    population, remains = case.last.scan.population, case.remains
    if isinstance(population, Gap):
        return rule.unknown(population.reason)
    severity = stock_severity(case, population)
    if severity is Severity.OK:
        return rule.absent(f"{population.zombies:,} zombies are too few to matter")
    if isinstance(remains, Gap):
        return rule.unknown(f"what holds the zombies is not known: {remains.reason}")
    held = remains.with_pins(rule.pins)
    if held < case.thresholds.pin_share * remains.zombies or held == 0:
        number = f"{held:,}" if held else "none"
        summary = f"{number} of {remains.zombies:,} zombies {'are' if held > 1 else 'is'} held by {rule.held_by}"
        return rule.absent(summary, _evidence(rule, remains))
    return rule.present(severity, _summary(rule, remains, held), _evidence(rule, remains), _remedies(rule, remains))


def makers_of(rule: Declaration, remains: Remains) -> list[tuple[str, int]]:
    """Who made the zombies that these kinds hold, most first."""
    found = Counter[str]()
    for each in remains.makers:
        held = min(sum(each.by_pin.get(kind, 0) for kind in rule.pins), each.zombies)
        if held:
            found[each.maker] = held
    return found.most_common()


def _summary(rule: Declaration, remains: Remains, held: int) -> str:
    makers = makers_of(rule, remains)
    whose = f", most of them made by {maker_said(makers[0][0])}" if makers else ""
    return f"{share_said(held, remains.zombies, 'zombies')} are held by {rule.held_by}{whose}"


def _remedies(rule: Declaration, remains: Remains) -> tuple[Remedy, ...]:
    """What frees most of them first; of two that free as many, the one that does less harm."""
    freed = Counter[Remedy]()
    for kind in rule.pins:
        for action, zombies in remains.actions.get(kind, {}).items():
            remedy = remedy_of(action) or rule.remedies[0]
            freed[_AS_TOLD.get(remedy, remedy)] += zombies
    return tuple(name for name, _ in freed.most_common()) or rule.remedies[:1]


def _evidence(rule: Declaration, remains: Remains) -> tuple[Evidence, ...]:
    source = f"autopsy ({remains.tier})"
    found = [
        Evidence(f"pinned.{kind}", remains.by_pin[kind], "zombies", source, remains.at)
        for kind in sorted(rule.pins)
        if kind in remains.by_pin
    ]
    found += [
        Evidence(f"maker[{maker}]", held, "zombies", source, remains.at)
        for maker, held in makers_of(rule, remains)[:_MOST_MAKERS]
    ]
    found += [
        Evidence(f"example.{example.kind}", example.name, "", source, remains.at)
        for example in remains.examples
        if example.kind in rule.pins
    ]
    return tuple(found)
