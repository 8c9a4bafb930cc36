# SPDX-License-Identifier: Apache-2.0
"""The cores: a strip each, the saturated stretches, and who burnt them, as `zombiescope.cores/1` and for a person. Fits 80 columns
and any number of cores."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from zombiescope.facts.cores import Blame, Blamed, CoreMode, CoresSeen, CoreTime, CoreUse, CoreWindow, Share, Stretch
from zombiescope.facts.gap import Gap
from zombiescope.presenters.document import Dated, Json, document, rfc3339
from zombiescope.presenters.layout import Command, Prose, again, unknown_block, wrapped

LEGEND = (
    ("K", "bold red", "saturated in the kernel"),
    ("k", "red", "kernel"),
    ("s", "magenta", "softirq"),
    ("i", "magenta", "interrupts"),
    ("t", "yellow", "taken by the hypervisor"),
    ("u", "blue", "user"),
    ("w", "cyan", "waiting for disks"),
    (".", "dim", "idle"),
    ("?", "dim", "unaccounted"),
)
STYLES = {letter: style for letter, style, _ in LEGEND}
_SATURATED = 0.75
_BUSY = 0.5
_MOSTLY = 0.5
"""Of the time: a window of which most is unknown has not shown that nothing happened."""


def letter_of(time: CoreTime) -> str:
    """Idle only when less than half of it was used; saturated by the same measure as a stretch."""
    total = time.total
    if total <= 0:
        return "?"
    if time.system + time.softirq + time.irq + time.steal >= _SATURATED * total and time.system >= max(
        time.softirq, time.irq, time.steal
    ):
        return "K"
    parts = {
        "k": time.system, "s": time.softirq, "i": time.irq, "t": time.steal, "u": time.user, "w": time.iowait, "?": time.lost,
    }  # fmt: skip
    if sum(parts.values()) < _BUSY * total:
        return "."
    return max(parts, key=lambda letter: parts[letter])


def strip(windows: Sequence[CoreWindow], began_at: float, seconds: float, columns: int) -> str:
    """One letter a column. A saturated piece is never averaged away: a column that holds one shows it."""
    cells: list[list[CoreTime]] = [[] for _ in range(columns)]
    for window in windows:
        middle = window.begin + window.seconds / 2 - began_at
        cells[min(max(int(middle / seconds * columns), 0), columns - 1)].append(window.time)
    letters = []
    for cell in cells:
        found = [letter_of(time) for time in cell]
        letters.append("K" if "K" in found else letter_of(summed(cell)) if cell else "")
    return _filled(letters)


def _filled(letters: list[str]) -> str:
    """A column into which no window's middle fell goes on as the one before."""
    text, last = "", "?"
    for letter in letters:
        last = letter or last
        text += last
    return text


def summed(times: Sequence[CoreTime]) -> CoreTime:
    total = CoreTime()
    for time in times:
        total = total.plus(time)
    return total


def lost_share(seen: CoresSeen) -> float:
    """Of the time of all cores: accounted to nobody, neither busy nor idle."""
    time = summed([use.time for use in seen.uses])
    return time.lost / time.total if time.total > 0 else 0.0


def is_mostly_lost(seen: CoresSeen) -> bool:
    return lost_share(seen) >= _MOSTLY


def folded(uses: Sequence[CoreUse]) -> tuple[CoreWindow, ...]:
    """Many cores as one: their windows of the same time added up."""
    by_begin: dict[float, list[CoreWindow]] = {}
    for use in uses:
        for window in use.windows:
            by_begin.setdefault(window.begin, []).append(window)
    return tuple(
        CoreWindow(begin, same[0].seconds, summed([window.time for window in same]))
        for begin, same in sorted(by_begin.items())
    )


_MOST_ROWS = 32
"""With more cores than this, those that were never saturated share one row."""
_MOST_OWN_ROWS = 24
_MOST_STRETCHES = 12
_MOST_NAMES = 4
_LEAST_COLUMNS = 10
_AXIS_STEPS, _AXIS_COLUMNS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600), 8
_WORTH_TELLING = 0.05
_HELD_BY = {
    CoreMode.SYSTEM: "in the kernel",
    CoreMode.SOFTIRQ: "in softirqs",
    CoreMode.IRQ: "in interrupts",
    CoreMode.STEAL: "taken by the hypervisor",
}


class Row:
    """A name, a strip as wide as there is room, and the shares."""

    def __init__(self, rows: Sequence[tuple[str, Sequence[CoreWindow], str]], seen: CoresSeen) -> None:
        self._rows, self._seen = rows, seen

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        names = max(len(name) for name, _, _ in self._rows)
        tails = max(len(tail) for _, _, tail in self._rows)
        is_below = options.max_width - names - tails - 4 < _LEAST_COLUMNS
        room = options.max_width - names - (2 if is_below else tails + 4)
        columns = max(min(room, max(len(windows) for _, windows, _ in self._rows)), 1)
        for name, windows_of_row, tail in self._rows:
            line = Text(f"{name:>{names}}  ")
            for letter in strip(windows_of_row, self._seen.began_at, self._seen.seconds, columns):
                line.append(letter, style=STYLES[letter])
            if is_below:
                yield line
                yield from (
                    Text(f"{'':{names}}  ").append_text(each)
                    for each in wrapped(Text(" ".join(tail.split()), style="dim"), room)
                )
                continue
            yield line.append(f"  {tail}", style="dim")
        yield Text(" " * (names + 2) + _time_axis(self._seen.seconds, columns), style="dim", no_wrap=True)


def _time_axis(seconds: float, columns: int) -> str:
    """Seconds since watching began, below the strips: the beginning, the end, and as many between as fit."""
    line, last = "0 s", f"{seconds:.3g} s"
    step = next((step for step in _AXIS_STEPS if step / seconds * columns >= _AXIS_COLUMNS), seconds)
    at = step
    while at < seconds:
        place = round(at / seconds * columns)
        if place + len(f"{at:g}") + 1 + len(last) > columns:
            break
        line = line.ljust(place) + f"{at:g}"
        at += step
    return line + last.rjust(columns - len(line)) if len(line) + len(last) < columns else line


def render_cores_text(seen: CoresSeen | Gap, root: str | None = None) -> list[RenderableType]:
    if isinstance(seen, Gap):
        first = Prose(f"the cores could not be watched: {seen.reason}", "magenta")
        return [first, *unknown_block([seen]), Text(), Command("to look at everything else", again("doctor", root))]
    parts: list[RenderableType] = [_verdict(seen), Text(), Row(_rows(seen), seen), Legend(seen)]
    ranked = sorted(seen.stretches, key=lambda each: -each.seconds)
    for stretch in sorted(ranked[:_MOST_STRETCHES]):
        parts += [Text(), *_stretch_lines(stretch, seen.blame)]
    if len(ranked) > _MOST_STRETCHES:
        parts += [
            Text(),
            Text(f"and {len(ranked) - _MOST_STRETCHES:,} shorter stretches (--json lists all)", style="dim"),
        ]
    unblamed = [seen.blame] if isinstance(seen.blame, Gap) and seen.stretches else []
    parts += unknown_block([*seen.gaps, *unblamed])
    if seen.stretches:
        return [*parts, Text(), Command("to see the cause", again("doctor", root))]
    if root is not None:
        return [*parts, Text(), Command("to look at everything else", again("doctor", root))]
    return [*parts, Text(), Command("to watch longer", "zombiescope cores --seconds 60")]


def _verdict(seen: CoresSeen) -> Text:
    longest = seen.longest
    watched = f"{seen.seconds:.0f} s on {seen.cores:,} {'core' if seen.cores == 1 else 'cores'}"
    if longest is None:
        lost = lost_share(seen)
        if is_mostly_lost(seen):
            words = f"whether a core was saturated is not known: {lost:.0%} of {watched} is unaccounted for"
            return Text(words, style="magenta")
        untold = f", of which {lost:.0%} is unaccounted for" if lost >= _WORTH_TELLING else ""
        return Text(f"no saturated core: not seen in {watched}{untold}", style="green")
    least = "at least " if longest.is_cut else ""
    text = f"core {longest.core} was {least}{longest.seconds:.1f} s {_HELD_BY[longest.mode]} without a break"
    style = "bold red" if longest.seconds >= 1 else "yellow"
    return Text(f"{text}; {seen.saturated_seconds:.1f} s saturated in {watched}", style=style)


def _rows(seen: CoresSeen) -> list[tuple[str, Sequence[CoreWindow], str]]:
    if len(seen.uses) <= _MOST_ROWS:
        return [(f"{use.core}", use.windows, _tail([use])) for use in seen.uses]
    saturated = {stretch.core: 0.0 for stretch in seen.stretches}
    for stretch in seen.stretches:
        saturated[stretch.core] += stretch.seconds
    chosen = sorted(saturated, key=lambda core: -saturated[core])[:_MOST_OWN_ROWS]
    own = [use for use in seen.uses if use.core in chosen]
    others = [use for use in seen.uses if use.core not in chosen]
    rows: list[tuple[str, Sequence[CoreWindow], str]] = [(f"{use.core}", use.windows, _tail([use])) for use in own]
    if others:
        name = f"{len(others)} others" if own else f"all {len(others)}"
        rows.append((name, folded(others), _tail(others)))
    return rows


def _tail(uses: Sequence[CoreUse]) -> str:
    time = summed([use.time for use in uses])
    known = time.total - time.lost
    if known <= 0:
        return "user    ?  kernel    ?"
    tail = f"  unaccounted {time.lost / time.total:4.0%}" if time.lost >= _WORTH_TELLING * time.total else ""
    return f"user {time.user / known:4.0%}  kernel {time.kernel / known:4.0%}{tail}"


class Legend:
    """What the letters that were used mean; a line ends between two of them."""

    def __init__(self, seen: CoresSeen) -> None:
        used = {letter_of(window.time) for _, windows, _ in _rows(seen) for window in windows}
        self._words = [(letter, style, words) for letter, style, words in LEGEND if letter in used]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = Text()
        for letter, style, words in self._words:
            if len(line) and len(line) + len(words) + 5 > options.max_width:
                yield line
                line = Text()
            line.append("   " if len(line) else "").append(letter, style=style).append(f" {words}", style="dim")
        yield line


def _stretch_lines(stretch: Stretch, blame: Blame | Gap) -> list[RenderableType]:
    least = "at least " if stretch.is_cut else ""
    head = f"core {stretch.core}  {rfc3339(stretch.begin)[11:22]}Z  {least}{stretch.seconds:.1f} s {_HELD_BY[stretch.mode]}"
    lines: list[RenderableType] = [Text(f"{head} ({stretch.share:.0%} of its time)", style="bold")]
    blamed = None if isinstance(blame, Gap) else blame.of(stretch.core, stretch.begin)
    if blamed is None:
        return lines
    if not blamed.samples:
        return [*lines, Text("  no sample of the kernel fell into it", style="dim")]
    for title, shares in (("for", blamed.processes), ("doing", blamed.causes), ("in", blamed.functions)):
        told = ", ".join(f"{each.name} {each.share:.0%}" for each in shares[:_MOST_NAMES])
        lines.append(Text(f"  {title:<6} {told}"))
    return lines


_UNTOLD = Gap(
    "saturated", "most of the time is unaccounted for: neither busy nor idle", "watch again, on the host itself"
)
_WINDOW = ("began_at", "seconds", "interval_seconds", "cores")


def render_cores(dated: Dated, seen: CoresSeen | Gap) -> Json:
    if isinstance(seen, Gap):
        body: Json = {
            "window": dict.fromkeys(_WINDOW),
            "saturated": {"seconds": None, "longest_seconds": None, "by_mode": None},
            "stretches": [],
            "cores": [],
        }
        missing = [f"window.{name}" for name in _WINDOW]
        missing += [f"saturated.{name}" for name in ("seconds", "longest_seconds", "by_mode")]
        return document("cores/1", dated, body, [seen.about(name) for name in (*missing, "stretches", "cores")])
    by_mode = {
        mode.value: round(sum(each.seconds for each in seen.stretches if each.mode is mode), 3) for mode in CoreMode
    }
    untold = not seen.stretches and is_mostly_lost(seen)
    saturated = {
        "seconds": round(seen.saturated_seconds, 3),
        "longest_seconds": round(seen.longest.seconds, 3) if seen.longest else 0.0,
        "by_mode": by_mode,
    }
    body = {
        "window": {
            "began_at": rfc3339(seen.began_at),
            "seconds": round(seen.seconds, 3),
            "interval_seconds": round(seen.interval_seconds, 3),
            "cores": seen.cores,
        },
        "saturated": dict.fromkeys(saturated) if untold else saturated,
        "stretches": [_stretch(stretch, seen.blame) for stretch in seen.stretches],
        "cores": [_core(use, seen) for use in seen.uses],
    }
    unblamed = [seen.blame] if isinstance(seen.blame, Gap) and seen.stretches else []
    unknown = [_UNTOLD.about(f"saturated.{name}") for name in saturated] if untold else []
    return document("cores/1", dated, body, [*seen.gaps, *unblamed, *unknown])


def _stretch(stretch: Stretch, blame: Blame | Gap) -> Json:
    return {
        "core": stretch.core,
        "begin": rfc3339(stretch.begin),
        "seconds": round(stretch.seconds, 3),
        "mode": stretch.mode.value,
        "kernel_share": round(stretch.share, 3),
        "is_cut": stretch.is_cut,
        "blame": _blamed(None if isinstance(blame, Gap) else blame.of(stretch.core, stretch.begin)),
    }


def _blamed(blamed: Blamed | None) -> Json | None:
    return blamed and {
        "samples": blamed.samples,
        "functions": _shares(blamed.functions),
        "causes": _shares(blamed.causes),
        "processes": _shares(blamed.processes),
    }


def _shares(shares: Sequence[Share]) -> list[Json]:
    return [{"name": each.name, "share": round(each.share, 3)} for each in shares]


def _core(use: CoreUse, seen: CoresSeen) -> Json:
    total = use.time.total or 1.0
    columns = max(len(use.windows), 1)
    return {
        "core": use.core,
        **{name: round(getattr(use.time, name) / total, 4) for name in CoreTime._fields},
        "strip": strip(use.windows, seen.began_at, seen.seconds, columns),
    }
