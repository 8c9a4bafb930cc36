# SPDX-License-Identifier: Apache-2.0
"""Profiles for a terminal: a heat map in shades, a flame graph as a tree, differences, moments, the list of captures, what a
search over them found."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted
from zombiescope.presenters.document import rfc3339
from zombiescope.presenters.figures import duration, size
from zombiescope.presenters.layout import Column, Fitting
from zombiescope.profiler.drawing.colours import HEAT, LEVELS, css
from zombiescope.profiler.drawing.documents import Reasons
from zombiescope.profiler.drawing.heat_map import strips_of
from zombiescope.profiler.stacks.arrays import I64
from zombiescope.profiler.stacks.capture import Stored, is_kernel_file
from zombiescope.profiler.stacks.flame_graph import FlameGraph, Key
from zombiescope.profiler.stacks.heat_map import HeatMap
from zombiescope.profiler.stacks.saturation import Explained

if TYPE_CHECKING:
    from zombiescope.profiler.stacks.searching import Hit

_SHADES = " ░▒▓█"
CauseWords = Callable[[str], str]
_MARGIN = 6
"""Columns at the left of a strip."""
_MOST_LINES = 60
_CHANGED = (
    Column("before"),
    Column("after"),
    Column("change"),
    Column("frame", is_number=False, least_width=20),
    Column("called by", is_number=False, least_width=16),
)
_LISTED = (
    Column("name", is_number=False),
    Column("written", is_number=False),
    Column("size"),
    Column("host", is_number=False),
    Column("from", is_number=False, least_width=8),
)


def render_heat_map_text(
    found: HeatMap, title: str, *, per_core: bool, gaps: Sequence[Gap], cores: Collection[int] = ()
) -> list[RenderableType]:
    strips, hottest = strips_of(found, per_core=per_core, cores=cores)
    samples = sum(int(each.counts.sum()) for each in strips)
    parts: list[RenderableType] = [Text(f"{title}: {counted(samples, 'sample')}", style="bold")]
    for strip in strips:
        seen = "" if strip.coverage is None else f"; {100 * strip.coverage:.0f}% of the expected samples were taken"
        parts += [
            Text(f"{strip.name}: {counted(int(strip.counts.sum()), 'sample')}{seen}"),
            *_shaded(strip.levels, (f"{found.column_seconds:g} s", "0 s")),
        ]
    return [
        *parts,
        Text(_scale(found), style="dim"),
        _legend(hottest, duration(found.column_seconds / found.rows)),
        Text(f"one column is {found.column_seconds:g} s; time within it runs upwards", style="dim"),
        *render_gaps(gaps),
    ]


def _shaded(levels: I64, ends: tuple[str, str]) -> list[Text]:
    """With the ends of a column's time at the left."""
    lines = []
    rows = levels.T[::-1].tolist()
    for number, row in enumerate(rows):
        end = ends[0] if number == 0 else ends[1] if number == len(rows) - 1 else ""
        shades = (
            (_SHADES[-(-level * (len(_SHADES) - 1) // LEVELS)], css(HEAT[level]) if level else "") for level in row
        )
        lines.append(Text.assemble(f"{end:>{_MARGIN - 1}} ", *shades))
    return lines


def _scale(found: HeatMap) -> str:
    line = " " * _MARGIN
    for column in range(0, found.columns, 10):
        line = f"{line.ljust(_MARGIN + column)}{found.begin + column * found.column_seconds:g}"
    return line + " s since the capture began"


def _legend(hottest: int, cell: str) -> Text:
    line = Text()
    shades = _SHADES[1:]
    for number, shade in enumerate(shades, 1):
        most = max(1, hottest * number // len(shades))
        if number == len(shades) or most > max(0, hottest * (number - 1) // len(shades)):
            line.append(shade, style=css(HEAT[LEVELS * number // len(shades)])).append(
                f" up to {most:,}   ", style="dim"
            )
    return line.append(f"samples in {cell}", style="dim")


def render_flame_text(
    graph: FlameGraph, frames: Sequence[Key], title: str, *, least: float, gaps: Sequence[Gap]
) -> list[RenderableType]:
    """The tree of what holds at least a share of the samples; a chain without a fork is one line."""
    lines = [Text(f"{title}: {counted(graph.samples, 'sample')}", style="bold")]
    children = graph.children()
    limit = max(1, round(graph.samples * least))
    waiting = [(entry, 0) for entry in reversed(_wide(graph, children[0], limit))] if len(graph.total) else []
    while waiting and len(lines) < _MOST_LINES:
        entry, indent = waiting.pop()
        chain = [entry]
        inner = _wide(graph, children[entry], limit)
        while len(inner) == 1 and int(graph.total[inner[0]]) * 50 >= int(graph.total[chain[-1]]) * 49:
            chain.append(inner[0])
            inner = _wide(graph, children[inner[0]], limit)
        lines.append(_chain_line(graph, frames, chain, indent))
        waiting += [(child, indent + 1) for child in reversed(inner)]
    if waiting:
        lines.append(
            Text(
                f"  … {counted(len(waiting), 'more branch', 'more branches')}: raise --least, or write --svg",
                style="dim",
            )
        )
    return [*lines, *render_gaps(gaps)]


def _wide(graph: FlameGraph, entries: list[int], limit: int) -> list[int]:
    return sorted(
        (entry for entry in entries if graph.total[entry] >= limit), key=lambda entry: -int(graph.total[entry])
    )


def _chain_line(graph: FlameGraph, frames: Sequence[Key], chain: list[int], indent: int) -> Text:
    names = [frames[int(graph.frame[entry])] for entry in chain]
    line = Text(f"{100 * int(graph.total[chain[0]]) / max(1, graph.samples):5.1f}%  {'  ' * indent}")
    kept = names if len(names) <= 6 else [*names[:3], (f"… {len(names) - 5} more …", ""), *names[-2:]]
    for place, (name, file) in enumerate(kept):
        if place:
            line.append(" > ", style="dim")
        line.append(name, style="bold" if not file and not place else "dark_orange" if is_kernel_file(file) else "")
    return line


def render_difference_text(
    graph: FlameGraph, frames: Sequence[Key], title: str, gaps: Sequence[Gap]
) -> list[RenderableType]:
    """What takes a larger or smaller share of its range than before; outer frames that only pass it on are left out."""
    after, before = graph.shares(), graph.shares_before()
    rows: list[list[str | Text]] = []
    for entry in graph.own_changes(0.002)[:20]:
        name, file = frames[int(graph.frame[entry])]
        rise = 100 * float(after[entry] - before[entry])
        place = file.rpartition("/")[2]
        rows.append(
            [
                f"{100 * before[entry]:.1f}%",
                f"{100 * after[entry]:.1f}%",
                Text(f"{rise:+.1f}", style="red" if rise > 0 else "blue"),
                f"{name}{f' ({place})' if place else ''}",
                Text(_callers(graph, frames, entry), style="dim"),
            ]
        )
    most = f"{rows[0][3]} changed most: {rows[0][0]} before, {rows[0][1]} after" if rows else "nothing changed"
    told = f"{counted(graph.before_samples, 'sample')} before, {graph.samples:,} after"
    return [Text(f"{title}: {most}", style="bold"), Fitting(_CHANGED, rows, about=3), Text(told), *render_gaps(gaps)]


def _callers(graph: FlameGraph, frames: Sequence[Key], entry: int) -> str:
    names, at = list[str](), int(graph.parent[entry])
    while at > 0 and len(names) < 3:
        names.append(frames[int(graph.frame[at])][0])
        at = int(graph.parent[at])
    return " < ".join(names)


def render_moments_text(
    moments: Sequence[Explained], name: str, seconds: float, gaps: Sequence[Gap]
) -> list[RenderableType]:
    number = counted(len(moments), "moment") if moments else "no moment"
    what = f"{number} in {duration(seconds)} when a core left its own quiet baseline for kernel work"
    parts: list[RenderableType] = [Text(f"{name}: {what}", style="bold")]
    for found in moments:
        moment = found.moment
        parts += [
            Text(
                f"core {moment.cpu}, {moment.begin:.1f} s to {moment.end:.1f} s: {100 * moment.share:.0f} % in the kernel "
                f"(quiet: {100 * moment.quiet_share:.0f} %), thread {found.comm or '?'}",
                style="bold red",
            ),
            Text(f"  {100 * found.stack_share:.0f} % in " + " > ".join(found.stack[-6:])),
        ]
        parts += [
            Text(f"  {100 * risen.before:5.1f} % → {100 * risen.during:5.1f} %  {risen.name}", style="dim")
            for risen in found.risen
        ]
    return [*parts, *render_gaps(gaps)]


def render_gaps(gaps: Sequence[Gap]) -> list[RenderableType]:
    return [Text(f"unknown: {gap.reason}" + (f" ({gap.hint})" if gap.hint else ""), style="yellow") for gap in gaps]


def render_list_text(found: Sequence[Stored], folder: str) -> list[RenderableType]:
    if not found:
        return [Text(f"no captures in {folder}")]
    rows = [
        (
            entry.name,
            f"{rfc3339(entry.written_at)[:19]}Z",
            size(entry.size_bytes),
            *(("?", "damaged") if entry.about is None else (entry.about.host or "?", entry.about.source)),
        )
        for entry in found
    ]
    whole = f"{counted(len(found), 'capture')} in {folder}, {size(sum(entry.size_bytes for entry in found))}"
    return [Text(whole, style="bold"), Fitting(_LISTED, rows)]


def render_hits_text(
    hits: "Sequence[Hit]", reasons: Reasons, captures: int, gaps: Sequence[Gap], cause_words: CauseWords, folder: str
) -> list[RenderableType]:
    unknown = [Text(f"unknown: {gap.reason}", style="yellow") for gap in gaps]
    if not hits:
        return [
            Text(f"nothing of that kind stands out in the {captures:,} captures of {folder}", style="bold"),
            *unknown,
        ]
    parts: list[RenderableType] = [
        Text(f"{_when(hits[0])}: {_what(hits[0], cause_words)}", style="bold"),
        Text(f"first of {captures:,} captures searched, by how much it stands out of what is usual", style="dim"),
    ]
    for number, hit in enumerate(hits, 1):
        parts += [Text(f"{number}. {_when(hit)}, {hit.name} at {hit.at:g} s"), Text(f"   {_what(hit, cause_words)}")]
        if hit.moment is not None:
            parts.append(Text(f"   {hit.moment['comm'] or '?'}: " + " > ".join(hit.moment["stack"][-4:]), style="dim"))
        parts += [Text(f"   kept for {why.kind}: {why.words}", style="dim") for why in reasons.get(hit.name, ())[:3]]
    return [*parts, *unknown]


def _when(hit: "Hit") -> str:
    return "at an unknown time" if hit.begin is None else f"{rfc3339(hit.begin + hit.at)[:19].replace('T', ' ')} UTC"


def _what(hit: "Hit", cause_words: CauseWords) -> str:
    names = {
        "cause": cause_words(hit.what),
        "process": f"threads named {hit.what}",
        "cgroup": f"the cgroup {hit.what}",
        "core": f"the kernel on core {hit.what}",
    }
    where = f" on core {hit.core}" if hit.core is not None and hit.kind != "core" else ""
    held = "" if hit.moment is None else f"core {hit.core} was held in the kernel for {hit.until - hit.at:.1f} s; "
    return f"{held}{names.get(hit.kind, hit.what)} took {hit.cores:.2f} cores{where} (usual: {hit.usual:.2f})"


def look_at(hit: "Hit", at: float | None) -> str:
    """The words of the command that shows it; `at`: the moment that was asked for."""
    begin, end = max(0.0, hit.at - 1), hit.until + 1
    if at is not None and hit.begin is not None:
        begin, end = max(0.0, at - hit.begin - 5), at - hit.begin + 5
    core = f" --core {hit.core}" if hit.core is not None and at is None else ""
    return f"flame --from {begin:.3g} --to {end:.3g}{core}"
