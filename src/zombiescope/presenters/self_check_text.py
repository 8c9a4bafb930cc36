# SPDX-License-Identifier: Apache-2.0
"""What of us works on a host, for a person: how far we can see first, then each part, then what to type next."""

from rich.console import RenderableType
from rich.text import Text

from zombiescope.facts.self_check import PartStatus, SelfCheck
from zombiescope.presenters.document import Json, document
from zombiescope.presenters.layout import Block, Column, Command, Fitting


def render_self_check(seen: SelfCheck) -> Json:
    body: Json = {
        "build": seen.build._asdict(),
        "is_root": seen.is_root,
        "working": sum(part.status is PartStatus.WORKS for part in seen.parts),
        "parts": {
            part.name: {"use": part.use, "used_by": list(part.used_by), "status": part.status.value, "by": part.by}
            for part in seen.parts
        },
    }
    return document("self-check/1", seen, body, [part.gap for part in seen.parts if part.gap])


_COLUMNS = (
    Column("what", is_number=False),
    Column("here", is_number=False),
    Column("how, or why not", is_number=False, least_width=16),
)
_STYLES = {PartStatus.WORKS: "green", PartStatus.PARTLY: "yellow", PartStatus.NO: "magenta"}


def render_self_check_text(seen: SelfCheck) -> list[RenderableType]:
    working = sum(part.status is PartStatus.WORKS for part in seen.parts)
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
        _next(seen),
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


def _table(seen: SelfCheck) -> Fitting:
    rows: list[list[str | Text]] = []
    for part in seen.parts:
        told = part.by or ""
        if part.gap:
            told = f"{told}: {part.gap.reason}" if told else part.gap.reason
        rows.append([part.use, Text(part.status.value, style=_STYLES[part.status]), told])
    return Fitting(_COLUMNS, rows)


def _help(seen: SelfCheck) -> list[RenderableType]:
    """What would help, each once, with all that it helps."""
    helped: dict[str, list[str]] = {}
    for part in seen.parts:
        if part.gap and part.gap.hint:
            helped.setdefault(part.gap.hint, []).append(part.use)
    blocks = [Block("to gain", [f"{'; '.join(uses)}: {hint}"]) for hint, uses in helped.items()]
    return [*blocks, Text()] if helped else []


def _next(seen: SelfCheck) -> Command:
    if seen.part("files").by is None:
        return Command("mount the memory cgroups, or run it in the host's own root, then", "zombiescope self-check")
    if not seen.is_root:
        return Command("to see what root would add", "sudo zombiescope self-check")
    if seen.part("exact").by or seen.part("kcore").by:
        return Command("to see each zombie", "zombiescope autopsy")
    return Command("to count the zombies", "zombiescope scan")
