# SPDX-License-Identifier: Apache-2.0
"""An autopsy for a person: totals first, then makers, pins and what frees them, then examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from zombiescope.analysis.autopsy import Autopsy, Body, instances_of, pages_of
from zombiescope.analysis.freeing import COSTS, cost_of
from zombiescope.facts.cgroups import Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown, zombies_said
from zombiescope.facts.page_pins import PinnedFile
from zombiescope.facts.zombies import Pin, Walk
from zombiescope.presenters.document import one_per_field
from zombiescope.presenters.figures import count, duration, size
from zombiescope.presenters.scan_text import gap_lines

_ROWS = 10
_PINS = 3
_INSTANCES = 3


def render_autopsy_text(  # noqa: PLR0913 (what was found, and how to show it)
    snapshot: Snapshot,
    walk: Walk,
    autopsy: Autopsy,
    gaps: Iterable[Gap],
    *,
    limit: int,
    group: str | None,
    files: Sequence[PinnedFile] = (),
) -> list[RenderableType]:
    found = autopsy.reconciliation
    parts: list[RenderableType] = [Text(_headline(autopsy)), _reconciled(walk, autopsy)]
    if autopsy.bodies:
        parts += [Text(), _grouped(autopsy, group)] if group else _overview(autopsy)
        examples = autopsy.bodies[:limit] if limit else autopsy.bodies
        parts += [Text(), _examples(examples, snapshot.taken_at)]
        if len(examples) < len(autopsy.bodies):
            parts.append(Text(f"  and {len(autopsy.bodies) - len(examples):,} more (--limit 0 shows all)", style="dim"))
    if files:
        parts += [Text(), _files_table(files[:limit] if limit else files)]
    if found.agree is False:
        parts += [Text(), Text(f"the counts do not agree: {found.why}", style="yellow")]
    return parts + gap_lines(one_per_field([*walk.gaps, *gaps]))


def _files_table(files: Iterable[PinnedFile]) -> Table:
    table = _table("file that pins zombies", "kind", "pages", "below", left=("kind", "below"))
    for file in files:
        table.add_row(
            Text(_file(file.pin) or "(no name)"), file.pin.kind, count(file.pin.pages), Text(shown(file.parent))
        )
    return table


def _headline(autopsy: Autopsy) -> str:
    totals = autopsy.totals
    if totals.zombies is None:
        there = autopsy.reconciliation.counted_minus_live
        return f"{count(there)} zombies, but they could not be seen one by one: which are of that choice is not known"
    if not totals.zombies:
        walked = autopsy.reconciliation.walk
        return f"none of the {walked:,} zombies is of that choice" if walked else "no zombies"
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
        f"{beside} below {below}; {first.share:.0%} are of {first.maker}"
    )


def _reconciled(walk: Walk, autopsy: Autopsy) -> Text:
    found = autopsy.reconciliation
    parts = [f"tier {walk.tier}", f"walk {count(found.walk)}, census {count(found.counted_minus_live)}"]
    parts.append(f"pages {count(found.walk_pages)}, memory.stat {count(found.residual_pages)}")
    if found.agree:
        parts.append("all counts agree")
    if walk.kernel_nanoseconds is not None:
        parts.append(f"{duration(walk.kernel_nanoseconds / 1e9)} in the kernel")
    return Text(" · ".join(parts), style="dim")


def _overview(autopsy: Autopsy) -> list[RenderableType]:
    totals = autopsy.totals
    makers = _table("maker", "zombies", "share")
    for share in totals.by_maker[:_ROWS]:
        makers.add_row(
            Text(f"{share.maker} ({share.name})" if share.name else share.maker),
            count(share.zombies),
            f"{share.share:.1%}",
        )
        instances = instances_of(autopsy.bodies, share.maker)
        if len(instances) > 1:
            named = ", ".join(f"{name} {zombies:,}" for name, zombies in instances[:_INSTANCES])
            more = f" and {len(instances) - _INSTANCES:,} more" if len(instances) > _INSTANCES else ""
            makers.add_row(Text(f"  {len(instances):,} instances: {named}{more}", style="dim"), "", "")
    if len(totals.by_maker) > _ROWS:
        rest = sum(share.zombies for share in totals.by_maker[_ROWS:])
        makers.add_row(f"{len(totals.by_maker) - _ROWS:,} others", count(rest), f"{rest / len(autopsy.bodies):.1%}")
    pins = _table("pinned by", "zombies")
    for kind, zombies in totals.by_pin.items():
        pins.add_row(kind, count(zombies))
    freed = _table("freed by", "zombies", "at the cost of", left=("at the cost of",))
    for action, zombies in totals.freed_by.items():
        freed.add_row(action, count(zombies), COSTS[action])
    for actions, zombies in totals.freed_together.items():
        freed.add_row(" and ".join(actions), count(zombies), cost_of(actions))
    tables = [makers, pins, freed]
    if totals.in_vain:
        vain = _table("does not help", "zombies", "because", left=("because",))
        for one in totals.in_vain:
            vain.add_row(one.action, count(one.zombies), one.why)
        tables.append(vain)
    return [part for table in tables for part in (Text(), table)]


def _grouped(autopsy: Autopsy, group: str) -> Table:
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
    table = _table(group, "zombies", "pages")
    for key, number in zombies.most_common():
        known = count(None) if key in sampled and not pages[key] else count(pages[key])
        table.add_row(Text(key), count(number), f"at least {known}" if key in sampled and pages[key] else known)
    return table


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
    name = pin.path if pin.path is not None else pin.path_in_fs
    return None if name is None else shown(name)


GROUPS: dict[str, Callable[[Body], Held]] = {
    "maker": lambda body: {body.maker: pages_of(body.zombie)},
    "pin": lambda body: _by(body, lambda pin: str(pin.kind), "none seen"),
    "file": lambda body: _by(body, _file, "(no file)"),
    "parent": lambda body: {shown(body.zombie.parent): pages_of(body.zombie)},
}


def _examples(bodies: Iterable[Body], now: float) -> Table:
    """A zombie a paragraph: the path in full, then what pins it and what would free it."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for body in bodies:
        zombie = body.zombie
        age = "age ?" if zombie.born_at is None else f"{duration(max(now - zombie.born_at, 0))} old"
        table.add_row(Text("zombie", style="bold"), Text(shown(zombie.path)))
        table.add_row(
            "", Text(f"id {zombie.id}, {age}, {body.maker}, {count(zombie.references.total)} references", style="dim")
        )
        for number, pin in enumerate(zombie.pins[:_PINS]):
            table.add_row("  pinned by" if number == 0 else "", Text(_pinned(pin)))
        if len(zombie.pins) > _PINS:
            table.add_row("", f"and {len(zombie.pins) - _PINS} more")
        if not zombie.pins:
            table.add_row("  pinned by", "nothing that could be seen")
        table.add_row("  freed by", Text(_freed(body)))
    return table


def _pinned(pin: Pin) -> str:
    pages = (
        f" ({count(pin.pages)} page{'s' if pin.pages != 1 else ''}{', sampled' if pin.sampled else ''})"
        if pin.pages
        else ""
    )
    used = f", used by {pin.holder}" if pin.holder and _file(pin) else ""
    return f"{pin.kind} {_file(pin) or pin.holder or ''}".rstrip() + pages + used


def _freed(body: Body) -> str:
    remedies = body.remedies
    joint = " and " if remedies[0].together else ", or "
    return joint.join(f"{remedy.action} {remedy.target}" for remedy in remedies[:_PINS])


def _table(first: str, *others: str, left: tuple[str, ...] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="left" if name in left else "right", overflow="fold")
    return table
