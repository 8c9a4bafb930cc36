# SPDX-License-Identifier: Apache-2.0
"""An autopsy for a person: totals first, then makers, pins and what frees them, then examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from zombiescope.analysis.autopsy import Autopsy, Body, MakerShare, PodShare, instances_of, pages_of
from zombiescope.analysis.freeing import cost_of
from zombiescope.facts.cgroups import Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, shown, zombies_said
from zombiescope.facts.page_pins import PinnedFile
from zombiescope.facts.pods import PREFIX
from zombiescope.facts.zombies import Pin, Tier, Walk
from zombiescope.presenters.document import one_per_field
from zombiescope.presenters.figures import count, duration, size, tried_words, words_of
from zombiescope.presenters.layout import Block, Cell, Column, Command, Fitting, Prose, again, unknown_block

_ROWS = 10
_PINS = 3
_INSTANCES = 3
_SORTS = 5
_GROUPS = 20
_TITLES = {"maker": "maker", "pin": "held by", "file": "file", "parent": "nearest live parent"}
_TIERS = {
    Tier.BPF: "BPF",
    Tier.KCORE: "/proc/kcore",
    Tier.PAGES: "the machine's pages",
    Tier.RESIDUAL: "memory.stat alone",
}


class AutopsyShown(NamedTuple):
    """How the answer was asked for."""

    limit: int | None = None
    """How many zombies to list; 0 lists all, None one of each sort."""
    group: str | None = None
    is_root: bool = True
    root: str | None = None
    """The recording or folder that was looked at."""


_PLAIN = AutopsyShown()


def render_autopsy_text(
    snapshot: Snapshot,
    walk: Walk,
    autopsy: Autopsy,
    gaps: Iterable[Gap],
    asked: AutopsyShown = _PLAIN,
    *,
    files: Sequence[PinnedFile] = (),
) -> list[RenderableType]:
    found = autopsy.reconciliation
    parts: list[RenderableType] = [Prose(_headline(autopsy)), _reconciled(walk, autopsy)]
    if autopsy.bodies:
        parts += [Text(), *_grouped(autopsy, asked.group, asked.limit)] if asked.group else _overview(autopsy)
        parts += _examples(autopsy, snapshot.taken_at, asked.limit)
    if files:
        most = _SORTS if asked.limit is None else asked.limit or len(files)
        parts += [Text(), _files_table(files[:most]), *_left_out(len(files) - most)]
    if found.agree is False:
        parts += [Text(), Prose(f"the counts do not agree: {found.why}", "yellow")]
    return [*parts, *unknown_block(one_per_field([*walk.gaps, *gaps])), Text(), _next(autopsy, asked)]


def _next(autopsy: Autopsy, asked: AutopsyShown) -> Command:
    if not autopsy.bodies and autopsy.reconciliation.counted_minus_live and not asked.is_root:
        return Command("to see them one by one", "sudo zombiescope autopsy")
    if autopsy.bodies:
        return Command("to see what to do about them", again("plan", asked.root))
    return Command("to look at the host", again("scan", asked.root))


def _left_out(count: int) -> list[RenderableType]:
    return [Text(f"  and {count:,} more (--limit 0 shows all)", style="dim")] if count > 0 else []


def _files_table(files: Iterable[PinnedFile]) -> Fitting:
    columns = (
        Column("file that holds zombies", is_number=False, least_width=12),
        Column("kind", is_number=False),
        Column("pages"),
        Column("below", is_number=False, least_width=10),
    )
    rows = [
        (_file(file.pin) or "(no name)", words_of(file.pin.kind), count(file.pin.pages), shown(file.parent))
        for file in files
    ]
    return Fitting(columns, rows)


def _headline(autopsy: Autopsy) -> str:
    totals = autopsy.totals
    if totals.zombies is None:
        there = autopsy.reconciliation.counted_minus_live
        return f"{count(there)} zombies, but they could not be seen one by one: how many of them match is not known"
    if not totals.zombies:
        walked = autopsy.reconciliation.walk
        if walked is None and autopsy.reconciliation.counted_minus_live:
            return f"{zombies_said(autopsy.reconciliation.counted_minus_live)}, but they could not be seen one by one"
        return f"none of the {zombies_said(walked)} matches" if walked else "no zombies"
    if not autopsy.bodies:
        return (
            f"{zombies_said(totals.zombies, 'hold')} {count(totals.pages)} pages, but they could not be seen one by one"
        )
    parents = len({body.zombie.parent for body in autopsy.bodies})
    swapped = sum(body.zombie.pages.swap or 0 for body in autopsy.bodies)
    beside = f" and {swapped:,} in swap" if swapped else ""
    first = totals.by_maker[0]
    below = f"{parents:,} live parent" + ("s" if parents != 1 else "")
    return (
        f"{zombies_said(totals.zombies, 'hold')} {count(totals.pages)} pages ({size((totals.pages or 0) * autopsy.page_bytes)})"
        f"{beside} below {below}; {first.share:.0%} were left by {first.maker}"
    )


def _reconciled(walk: Walk, autopsy: Autopsy) -> Text:
    found = autopsy.reconciliation
    parts = [
        f"seen by {_TIERS.get(walk.tier, walk.tier)}",
        f"{count(found.walk)} walked, {count(found.counted_minus_live)} counted",
        f"pages: {count(found.walk_pages)} walked, {count(found.residual_pages)} in memory.stat",
        *(["all counts agree"] if found.agree else []),
    ]
    if walk.kernel_nanoseconds is not None:
        parts.append(f"{duration(walk.kernel_nanoseconds / 1e9)} in the kernel")
    return Text(" · ".join(parts), style="dim")


def _overview(autopsy: Autopsy) -> list[RenderableType]:
    totals = autopsy.totals
    pins = [(words_of(kind), count(zombies)) for kind, zombies in totals.by_pin.items()]
    freed = [(action.doing, count(zombies), action.cost) for action, zombies in totals.freed_by.items()]
    freed += [
        (" and ".join(each.doing for each in actions), count(zombies), cost_of(actions))
        for actions, zombies in totals.freed_together.items()
    ]
    useless = [(tried_words(one.action), count(one.zombies), one.why) for one in totals.useless]
    tables = [
        _makers(autopsy),
        _table(("held by", "zombies"), pins),
        _table(("freed by", "zombies", "at the cost of"), freed),
        *([_table(("does not help", "zombies", "because"), useless)] if useless else []),
    ]
    return [part for table in tables for part in (Text(), table)]


def _makers(autopsy: Autopsy) -> Fitting:
    """The biggest first; instances of one template are one row."""
    totals = autopsy.totals
    rows: list[tuple[Cell, Cell, Cell]] = []
    for share in totals.by_maker[:_ROWS]:
        guessed = " (by the pod's name)" if share.is_guess else ""
        rows.append((f"{share.maker}{guessed}", count(share.zombies), f"{share.share:.1%}"))
        if share.pods and share.maker.startswith(PREFIX):
            rows.append((Text(_pods(share), style="dim"), "", ""))
        instances = instances_of(autopsy.bodies, share.maker)
        if len(instances) > 1:
            named = ", ".join(f"{name} {zombies:,}" for name, zombies in instances[:_INSTANCES])
            more = f" and {len(instances) - _INSTANCES:,} more" if len(instances) > _INSTANCES else ""
            rows.append((Text(f"{len(instances):,} instances: {named}{more}", style="dim"), "", ""))
    if len(totals.by_maker) > _ROWS:
        rest = sum(share.zombies for share in totals.by_maker[_ROWS:])
        others = f"{len(totals.by_maker) - _ROWS:,} others"
        rows.append((others, count(rest), f"{rest / len(autopsy.bodies):.1%}"))
    return _table(("maker", "zombies", "share"), rows, numbers=("zombies", "share"))


def _pods(share: MakerShare) -> str:
    """The pods of a workload, and of each the containers."""
    pods = share.pods
    named = ", ".join(f"{pod.name or pod.uid} {pod.zombies:,}{_containers(pod)}" for pod in pods[:_INSTANCES])
    more = f" and {len(pods) - _INSTANCES:,} more" if len(pods) > _INSTANCES else ""
    return f"{counted(len(pods), 'pod')}: {named}{more}"


def _containers(pod: PodShare) -> str:
    told = [f"{name} {zombies:,}" for name, zombies in pod.containers.items() if name]
    unnamed = pod.containers.get("", 0)
    told = told[:_INSTANCES] + ([f"others {unnamed:,}"] if unnamed and told else [])
    return f" ({', '.join(told)})" if told else ""


def _grouped(autopsy: Autopsy, group: str, limit: int | None) -> list[RenderableType]:
    """The pages are the group's own: of a file those that are the file's, of a kind of pin those that it holds."""
    zombies: Counter[str] = Counter()
    pages: Counter[str] = Counter()
    sampled: set[str] = set()
    for body in autopsy.bodies:
        for key, held in GROUPS[group](body).items():
            zombies[key] += 1
            pages[key] += held or 0
            if held is None:
                sampled.add(key)
    rows = []
    ranked = sorted(zombies.items(), key=lambda each: (-each[1], -pages[each[0]]))
    for key, number in ranked[: None if limit == 0 else _GROUPS]:
        known = count(None) if key in sampled and not pages[key] else count(pages[key])
        rows.append((key, count(number), f"at least {known}" if key in sampled and pages[key] else known))
    return [
        _table((_TITLES[group], "zombies", "pages"), rows, numbers=("zombies", "pages")),
        *_left_out(len(ranked) - len(rows)),
    ]


Held = dict[str, int | None]
"""By group: the pages of one zombie that are in it; None where they were not counted, or only some."""


def _by(body: Body, name: Callable[[Pin], str | None], otherwise: str) -> Held:
    held: Held = {}
    for pin in body.zombie.pins:
        key = name(pin)
        if key is not None:
            before = held.get(key, 0)
            held[key] = None if before is None or pin.pages is None or pin.sampled else before + pin.pages
    return held or {otherwise: pages_of(body.zombie)}


def _file(pin: Pin) -> str | None:
    return None if pin.name is None else shown(pin.name)


GROUPS: dict[str, Callable[[Body], Held]] = {
    "maker": lambda body: {body.maker: pages_of(body.zombie)},
    "pin": lambda body: _by(body, lambda pin: words_of(pin.kind), "none seen"),
    "file": lambda body: _by(body, _file, "(no file)"),
    "parent": lambda body: {shown(body.zombie.parent): pages_of(body.zombie)},
}


def _examples(autopsy: Autopsy, now: float, limit: int | None) -> list[RenderableType]:
    """One of each sort, the sort of which there are most first; or as many as were asked for, one by one."""
    if limit is not None:
        listed = autopsy.bodies[:limit] if limit else autopsy.bodies
        parts = [part for body in listed for part in (Text(), _example(body, now))]
        return [*parts, *_left_out(len(autopsy.bodies) - len(listed))]
    sorts: dict[object, list[Body]] = {}
    for body in autopsy.bodies:
        sorts.setdefault(_sort(body), []).append(body)
    most_first = sorted(sorts.values(), key=lambda bodies: -len(bodies))
    parts = [part for bodies in most_first[:_SORTS] for part in (Text(), _example(bodies[0], now, len(bodies) - 1))]
    return [*parts, *_left_out(sum(map(len, most_first[_SORTS:])))]


def _sort(body: Body) -> object:
    """Zombies of one maker that are held by the same kinds and freed in the same way are told once."""
    kinds = frozenset(str(pin.kind) for pin in body.zombie.pins)
    return body.maker, kinds, frozenset(str(remedy.action) for remedy in body.remedies)


def _example(body: Body, now: float, alike: int = 0) -> Block:
    """A zombie in a paragraph: the path in full, then what holds it and what would free it."""
    zombie = body.zombie
    age = "age unknown" if zombie.born_at is None else f"{duration(max(now - zombie.born_at, 0))} old"
    lines = [
        Text(shown(zombie.path), style="bold"),
        Text(f"id {zombie.id}, {age}, {body.maker}, {_references(zombie.references.total)}", style="dim"),
    ]
    held = [f"held by {_pinned(pin)}" for pin in zombie.pins[:_PINS]] or ["held by nothing that could be seen"]
    if len(zombie.pins) > _PINS:
        held.append(f"and by {len(zombie.pins) - _PINS} more")
    lines += [Text(line) for line in held]
    lines.append(Text(f"freed by: {_freed(body)}"))
    if alike:
        lines.append(Text(f"and {alike:,} more like it", style="dim"))
    return Block("zombie", lines)


def _references(number: int | None) -> str:
    return "1 reference" if number == 1 else f"{count(number)} references"


def _pinned(pin: Pin) -> str:
    pages = (
        f" ({count(pin.pages)} page{'s' if pin.pages != 1 else ''}{', sampled' if pin.sampled else ''})"
        if pin.pages
        else ""
    )
    if pin.fstype == "bdev":
        return f"{words_of(pin.kind)} of the block device {_file(pin)} itself, in no file of it{pages}"
    used = f", used by {pin.holder.said}" if pin.holder and _file(pin) else ""
    return f"{words_of(pin.kind)} {_file(pin) or (pin.holder.said if pin.holder else '')}".rstrip() + pages + used


def _freed(body: Body) -> str:
    remedies = body.remedies
    joint = " and " if remedies[0].together else ", or "
    return joint.join(f"{remedy.action.doing} ({remedy.target})" for remedy in remedies[:_PINS])


def _table(names: Sequence[str], rows: Sequence[Sequence[Cell]], numbers: tuple[str, ...] = ("zombies",)) -> Fitting:
    return Fitting([Column(name, name in numbers, None if name in numbers else 10) for name in names], rows)
