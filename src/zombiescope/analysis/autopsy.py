# SPDX-License-Identifier: Apache-2.0
"""Every zombie with its maker and what would free it, the totals, and whether the independent counts agree."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from zombiescope.analysis.freeing import (
    AT_REST,
    Aimed,
    CacheState,
    Useless,
    derive_useless,
    least_harm_first,
    needs_of,
    remedies_of,
    state_of,
    ways_out,
)
from zombiescope.analysis.maker import Makers, container_id_of, folding, instance_of, pod_uid_of
from zombiescope.analysis.scan import Population
from zombiescope.facts.cgroups import PAGE_BYTES_UNTOLD, Residuals
from zombiescope.facts.pods import POD_PREFIX, PREFIX, KnownPods
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.zombies import Pages, Pin, PinKind, Tier, Walk, Zombie

NOBODY = KnownPods()


class Body(NamedTuple):
    """One zombie on the table."""

    zombie: Zombie
    maker: str
    pins: tuple[Pin, ...]
    """What must go before it can: its own pins and, in the place of a dead child, the child's."""

    @property
    def remedies(self) -> tuple[Aimed, ...]:
        return remedies_of(self.zombie, self.pins)


class PodShare(NamedTuple):
    uid: str
    name: str
    """namespace/name."""
    zombies: int
    containers: Mapping[str, int] = {}
    """Zombies by container, most first; of one whose name is not known, under an empty one."""


class MakerShare(NamedTuple):
    maker: str
    zombies: int
    share: float
    pods: tuple[PodShare, ...] = ()
    """Of a workload, each of its pods, most zombies first."""
    is_guess: bool = False
    """It is the workload's by the pattern of a pod's name alone."""


class Totals(NamedTuple):
    zombies: int | None
    """None: how many are of a choice cannot be known where none could be seen one by one."""
    pages: int | None
    by_pin: Mapping[PinKind, int]
    """Zombies that have a pin of the kind; one with two kinds is counted under both."""
    by_maker: tuple[MakerShare, ...]
    freed_by: Mapping[Remedy, int]
    useless: tuple[Useless, ...] = ()
    """What does not free them, or makes it worse."""
    freed_together: Mapping[tuple[Remedy, ...], int] = {}
    """Zombies that no single action frees, by the actions it takes; none of them is in `freed_by`."""


class ParentCheck(NamedTuple):
    """The pages of one parent's zombies, by the walk and by memory.stat."""

    path: bytes
    walk: int
    walk_pages: int
    residual_pages: int | None


class Reconciliation(NamedTuple):
    walk: int | None
    counted_minus_live: int | None
    walk_pages: int | None
    residual_pages: int | None
    agree: bool | None
    """None where there was nothing to compare with."""
    why: str
    by_parent: tuple[ParentCheck, ...] = ()
    """Most zombies first."""


class Autopsy(NamedTuple):
    bodies: tuple[Body, ...]
    totals: Totals
    reconciliation: Reconciliation
    page_bytes: int = PAGE_BYTES_UNTOLD


def derive_autopsy(
    walk: Walk, population: Population | None, residuals: Residuals | None, known: KnownPods = NOBODY
) -> Autopsy:
    """Where no tier saw the zombies one by one there are no bodies: the totals are the census's and memory.stat's."""
    if walk.tier in (Tier.PAGES, Tier.RESIDUAL):
        return _without_bodies(population, residuals, walk.page_bytes)
    maker_of, below = Makers(known.makers).of, _pins_of_children(walk)
    make = tuple.__new__  # a named tuple's own constructor would cost a call more for each of tens of thousands
    bodies = tuple(
        [
            make(Body, (zombie, maker_of(zombie.path), _pins_to_go(zombie, below) if below else zombie.pins))
            for zombie in walk.zombies
        ]
    )
    patterns = folding(Counter(body.maker for body in bodies))
    if patterns:
        bodies = tuple(body._replace(maker=patterns.get(body.maker, body.maker)) for body in bodies)
    return Autopsy(bodies, derive_totals(bodies), reconcile(walk, population, residuals), walk.page_bytes)


def instances_of(bodies: Iterable[Body], maker: str) -> list[tuple[str, int]]:
    """Of a maker that stands for many units: each of them with its zombies, most first."""
    if not maker.startswith("unit:") or not ("@." in maker or "*" in maker):
        return []
    names = (instance_of(body.zombie.path, maker) for body in bodies if body.maker == maker)
    return Counter(name for name in names if name is not None).most_common()


def _without_bodies(population: Population | None, residuals: Residuals | None, page_bytes: int) -> Autopsy:
    zombies = None if population is None else population.zombies
    pages = None if residuals is None or residuals.unsplit else _residual_pages(residuals, page_bytes)
    why = "no tier saw the zombies one by one: there is only one count"
    found = Reconciliation(None, zombies, None, pages, None, why)
    return Autopsy((), Totals(zombies or 0, pages, {}, (), {}), found, page_bytes)


def with_pods(autopsy: Autopsy, known: KnownPods) -> Autopsy:
    """With the pods below each workload."""
    heaps: dict[str, dict[str, Counter[str]]] = {}
    for body in autopsy.bodies:
        if body.maker.startswith((PREFIX, POD_PREFIX)):
            path = body.zombie.path
            uid, number = pod_uid_of(path) or "", container_id_of(path)
            containers = heaps.setdefault(body.maker, {}).setdefault(uid, Counter())
            containers[_container(known, number)] += 1
    shares = tuple(
        _with_pods(share, heaps[share.maker], known) if share.maker in heaps else share
        for share in autopsy.totals.by_maker
    )
    return autopsy._replace(totals=autopsy.totals._replace(by_maker=shares))


def _container(known: KnownPods, number: str | None) -> str:
    """What is remembered has the first characters of an id."""
    if number is None:
        return "(pod)"
    return known.containers.get(number) or known.containers.get(number[:12], "")


def _with_pods(share: MakerShare, heap: Mapping[str, Counter[str]], known: KnownPods) -> MakerShare:
    found = [
        PodShare(uid, known.pods[uid].called if uid in known.pods else "", sum(each.values()), dict(each.most_common()))
        for uid, each in heap.items()
    ]
    ranked = sorted(found, key=lambda pod: (-pod.zombies, pod.name, pod.uid))
    is_guess = any(known.pods[uid].owner.is_guess for uid in heap if uid in known.pods)
    return share._replace(pods=tuple(ranked), is_guess=is_guess)


def names_of(body: Body, known: KnownPods) -> tuple[str, ...]:
    """All that a maker may be asked for by: its workload, the pod by its uid and by its name."""
    uid = pod_uid_of(body.zombie.path) if body.maker.startswith(PREFIX) else None
    if uid is None:
        return (body.maker,)
    pod = known.pods.get(uid)
    return (body.maker, f"{POD_PREFIX}{uid}", *((f"{POD_PREFIX}{pod.called}",) if pod else ()))


def _pins_to_go(zombie: Zombie, below: Mapping[int, list[Pin]]) -> tuple[Pin, ...]:
    """Where the children are not known one by one, the child itself stands for its pins."""
    if not zombie.references.children or zombie.id not in below:
        return zombie.pins
    return (*(pin for pin in zombie.pins if pin.kind is not PinKind.CHILD), *below[zombie.id])


def _pins_of_children(walk: Walk) -> dict[int, list[Pin]]:
    """By parent id, the pins of all dead descendants: deeper ones first, so that they reach their grandparents."""
    parents = {zombie.id for zombie in walk.zombies if zombie.references.children}
    below: dict[int, list[Pin]] = {}
    for zombie in sorted((z for z in walk.zombies if z.parent_id in parents), key=lambda zombie: -zombie.level):
        assert zombie.parent_id is not None
        own = [pin for pin in zombie.pins if pin.kind is not PinKind.CHILD]
        below.setdefault(zombie.parent_id, []).extend([*own, *below.get(zombie.id, ())])
    return below


def derive_totals(bodies: tuple[Body, ...]) -> Totals:
    """Counted by shape first: of tens of thousands of zombies only a handful differ in what matters here."""
    makers: Counter[str] = Counter()
    kinds: Counter[PinKind] = Counter()
    freed: Counter[Remedy] = Counter()
    together: Counter[tuple[Remedy, ...]] = Counter()
    useless: Counter[tuple[tuple[PinKind, ...], CacheState]] = Counter()
    pages = 0
    for (maker, held, unsplit, of_kinds, needs, state), number in Counter(map(_shape, bodies)).items():
        makers[maker] += number
        pages += (_in_memory(held) + unsplit) * number
        kinds.update(dict.fromkeys(of_kinds, number))
        useless[of_kinds, state] += number
        ways = ways_out(needs)
        freed.update(dict.fromkeys(ways.alone, number))
        if ways.together:
            together[ways.together] += number
    shares = tuple(MakerShare(maker, count, count / len(bodies)) for maker, count in makers.most_common())
    return Totals(
        len(bodies),
        pages,
        dict(kinds.most_common()),
        shares,
        least_harm_first(freed),
        derive_useless(useless),
        dict(together.most_common()),
    )


def _shape(body: Body) -> tuple[str, Pages, int, tuple[PinKind, ...], tuple[frozenset[Remedy], ...], CacheState]:
    """What the totals need to know of a zombie."""
    zombie, maker, pins = body
    if pins is zombie.pins and len(pins) == 1:
        pin = pins[0]
        state = state_of(pins) if pin.kind is PinKind.PAGE_CACHE else AT_REST
        return maker, zombie.pages, zombie.unsplit_pages, (pin.kind,), needs_of(pin), state
    return (
        maker,
        zombie.pages,
        zombie.unsplit_pages,
        tuple([pin.kind for pin in zombie.pins]),
        tuple([actions for pin in pins for actions in needs_of(pin)]),
        state_of(zombie.pins),
    )


def pages_of(zombie: Zombie) -> int:
    return _in_memory(zombie.pages) + zombie.unsplit_pages


def _in_memory(pages: Pages) -> int:
    """Without swap. Unevictable pages are on a list of their own."""
    return (pages.file or 0) + (pages.shmem or 0) + (pages.anon or 0) + (pages.unevictable or 0)


def reconcile(walk: Walk, population: Population | None, residuals: Residuals | None) -> Reconciliation:
    """The walk, the census and memory.stat are independent witnesses: a mismatch is said, with what it can come from."""
    page_bytes = walk.page_bytes
    checks = _by_parent(walk, residuals, page_bytes)
    walked, pages = len(walk.zombies), sum(check.walk_pages for check in checks)
    counted = None if population is None else population.zombies
    residual = (
        None if residuals is None or residuals.unsplit or residuals.garbled else _residual_pages(residuals, page_bytes)
    )
    doubts = []
    if counted is not None and counted != walked:
        doubts.append(
            f"the walk saw {walked:,} zombies and the census {counted:,}: cgroups died or were released between the two"
        )
    if residual is not None and residual != pages:
        doubts.append(f"the walk saw {pages:,} pages and memory.stat {residual:,}: {_why_pages(pages, residual)}")
    if counted is None and residual is None:
        return Reconciliation(walked, None, pages, None, None, "there was no other count to compare with", checks)
    return Reconciliation(walked, counted, pages, residual, not doubts, "; ".join(doubts) or "all counts agree", checks)


def _by_parent(walk: Walk, residuals: Residuals | None, page_bytes: int) -> tuple[ParentCheck, ...]:
    zombies_of: Counter[bytes] = Counter()
    pages: Counter[bytes] = Counter()
    keys = [(zombie.parent, zombie.pages, zombie.unsplit_pages) for zombie in walk.zombies]
    for (parent, held, unsplit), number in Counter(keys).items():
        zombies_of[parent] += number
        pages[parent] += (_in_memory(held) + unsplit) * number
    checks = []
    for path, zombies in zombies_of.most_common():
        residual = None
        if residuals is not None and path not in residuals.unsplit:
            use = residuals.by_parent.get(path)
            residual = 0 if use is None else (use.file + use.shmem + use.anon) // page_bytes
        checks.append(ParentCheck(path, zombies, pages[path], residual))
    return tuple(checks)


def _residual_pages(residuals: Residuals, page_bytes: int) -> int:
    return sum(use.file + use.shmem + use.anon for use in residuals.by_parent.values()) // page_bytes


def _why_pages(walked: int, residual: int) -> str:
    if walked > residual:
        return "pages were charged or freed between the two, or the statistics were not flushed yet"
    return "pages in per-CPU batches are not on a list yet, or were charged or freed between the two"
