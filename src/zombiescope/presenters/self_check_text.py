# SPDX-License-Identifier: Apache-2.0
"""What of us works on a host, for a person: how far we can see first, then each part, then what to type next."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from zombiescope.facts.self_check import SelfCheck, Status

_STYLES = {Status.WORKS: "green", Status.PARTLY: "yellow", Status.NO: "magenta"}


def render_self_check_text(seen: SelfCheck) -> list[RenderableType]:
    working = sum(part.status is Status.WORKS for part in seen.parts)
    build = seen.build
    return [
        Text(f"{_reach(seen)}; {working} of {len(seen.parts)} parts work fully on this host", style="bold"),
        Text(
            f"zombiescope {build.version} ({build.kind}, Python {build.python}, {build.architecture})"
            f" · kernel {seen.identity.kernel or '?'} · {'root' if seen.is_root else 'not root'}"
        ),
        Text(),
        _table(seen),
        Text(),
        *_help(seen),
        Text.assemble(("next     ", "bold"), _next(seen)),
    ]


def _reach(seen: SelfCheck) -> str:
    """The best that can be said of zombies here."""
    if seen.part("exact").by is not None:
        return "every zombie can be seen (BPF)"
    if seen.part("kcore").by is not None:
        return "every zombie can be seen (/proc/kcore)"
    if seen.part("files").by is None:
        return "zombies cannot be counted"
    if seen.part("pages").by is not None:
        return "zombies can be counted, and their pages can be seen"
    return "zombies can be counted, not seen one by one"


def _table(seen: SelfCheck) -> Table:
    table = Table(box=None, pad_edge=False, show_header=True)
    table.add_column("what", no_wrap=True)
    table.add_column("here", no_wrap=True)
    table.add_column("how, or why not", overflow="fold")
    for part in seen.parts:
        told = part.by or ""
        if part.gap:
            told = f"{told}: {part.gap.reason}" if told else part.gap.reason
        table.add_row(Text(part.use), Text(part.status.value, style=_STYLES[part.status]), Text(told))
    return table


def _help(seen: SelfCheck) -> list[RenderableType]:
    """What would help, each once, with all that it helps."""
    helped: dict[str, list[str]] = {}
    for part in seen.parts:
        if part.gap and part.gap.hint:
            helped.setdefault(part.gap.hint, []).append(part.use)
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=9, no_wrap=True)
    grid.add_column(overflow="fold")
    for hint, uses in helped.items():
        grid.add_row(Text("to gain", style="bold"), Text(f"{'; '.join(uses)}: {hint}"))
    return [grid, Text()] if helped else []


def _next(seen: SelfCheck) -> str:
    if seen.part("files").by is None:
        return "mount the memory cgroups, or run it in the host's own root: zombiescope self-check"
    if not seen.is_root:
        return "sudo zombiescope self-check   (what root would add)"
    return "zombiescope autopsy" if seen.part("exact").by or seen.part("kcore").by else "zombiescope scan"
