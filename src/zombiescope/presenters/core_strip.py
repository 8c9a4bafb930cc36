# SPDX-License-Identifier: Apache-2.0
"""A core's time as a row of letters, readable without colour: what had most of each piece of time."""

from __future__ import annotations

from collections.abc import Sequence

from zombiescope.facts.cores import CoresSeen, CoreTime, CoreUse, CoreWindow

LEGEND = (
    ("K", "bold red", "saturated in the kernel"),
    ("k", "red", "kernel"),
    ("s", "magenta", "softirq"),
    ("i", "magenta", "interrupts"),
    ("t", "yellow", "taken by the hypervisor"),
    ("u", "blue", "user"),
    ("w", "cyan", "waiting for disks"),
    (".", "dim", "idle"),
    ("?", "dim", "no account"),
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
