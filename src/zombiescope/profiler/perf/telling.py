# SPDX-License-Identifier: Apache-2.0
"""What is said of a perf.data beside its samples: where it is from, and what could not be read of it."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from zombiescope.facts.gap import Gap
from zombiescope.profiler.perf.data_file import PerfFile
from zombiescope.profiler.perf.side_records import Side
from zombiescope.profiler.stacks.about import About

_MOST_RATE_HZ = 10**9


def records_at(raw: memoryview, words: Iterable[int]) -> list[tuple[int, int, bytes]]:
    """As (type, misc, bytes after the header)."""
    records = []
    for word in words:
        kind, misc, size = struct.unpack_from("<IHH", raw, word * 8)
        records.append((kind, misc, bytes(raw[word * 8 + 8 : word * 8 + size])))
    return records


def stream_gaps(opened: PerfFile, why: str, end: int, total: int) -> tuple[Gap, ...]:
    """Of records that lie in the file as they are: where reading ended, in words, and why."""
    return walk_gaps(why, end, total, opened.data_from) or _rest(opened, total * 8)


def walk_gaps(why: str, end: int, total: int, data_from: int) -> tuple[Gap, ...]:
    if not why:
        return ()
    where = f"at byte {data_from + end * 8:,}: {why}"
    return (Gap("samples", f"{where}; the last {(total - end) * 8:,} bytes are not read", "copy the file again"),)


def _rest(opened: PerfFile, read: int) -> tuple[Gap, ...]:
    """Too little for a record's header: a stream that was cut there."""
    left = opened.data_to - opened.data_from - read
    if not left:
        return ()
    where = f"at byte {opened.data_from + read:,}"
    return (
        Gap("samples", f"{where}: the last {left} bytes are only the beginning of a record", "copy the file again"),
    )


def sample_gaps(opened: PerfFile, broken: int, side: Side) -> list[Gap]:
    lower = "record with a lower rate"
    told = (
        (opened.short_by, "samples", "the file ends {:,} bytes early", "copy it again"),
        (broken, "samples", "{:,} samples with lengths that cannot be are left out", ""),
        (side.broken, "frames", "{:,} records on processes and maps are too short to be read", ""),
        (side.lost, "samples", "the kernel lost {:,} records: the buffers were full", lower),
        (side.throttled, "samples", "sampling was throttled {:,} times", lower),
    )
    return [Gap(fact, reason.format(count), hint) for count, fact, reason, hint in told if count]


def file_gaps(unnamed: dict[str, Gap]) -> list[Gap]:
    if not unnamed:
        return []
    examples = "; ".join(f"{path} ({gap.reason})" for path, gap in list(unnamed.items())[:3])
    more = f" and {len(unnamed) - 3} more files" if len(unnamed) > 3 else ""
    return [Gap("frames[].name", f"functions not named in {examples}{more}", next(iter(unnamed.values())).hint)]


def about_it(about: About, opened: PerfFile, side: Side, gaps: tuple[Gap, ...]) -> About:
    rates = [event.rate for event in opened.events.all if event.is_frequency and 0 < event.rate <= _MOST_RATE_HZ]
    return about._replace(
        host=opened.hostname,
        kernel=opened.kernel,
        clock=opened.clock,
        rate_hz=float(rates[0]) if rates else None,
        lost=side.lost,
        throttled=side.throttled,
        gaps=(*about.gaps, *gaps),
    )
