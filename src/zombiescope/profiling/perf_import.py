# SPDX-License-Identifier: Apache-2.0
"""perf.data to a capture, without perf: walk, columns, address spaces, distinct stacks, symbols, tree."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.profiling.address_spaces import Spaces, Threads, follow
from zombiescope.profiling.arrays import U32, U64, dense_ids
from zombiescope.profiling.broken import BrokenCapture
from zombiescope.profiling.capture import About, Capture, judge_idle
from zombiescope.profiling.engine import ArrayEngine, Engine
from zombiescope.profiling.kernel_spells import Spell, moved, own_symbols, spells
from zombiescope.profiling.kernel_symbols import KernelSymbols, no_kernel_symbols
from zombiescope.profiling.perf_file import PerfFile, open_perf
from zombiescope.profiling.perf_samples import Samples, read_samples
from zombiescope.profiling.perf_side import KernelSymbol, Side, read_side
from zombiescope.profiling.perf_stream import Stream, plain_stream
from zombiescope.profiling.symbolise import VDSO, Frames, SymbolSources, symbolise

KernelSource = Callable[[int | None], KernelSymbols | Gap]
"""Given where the recorded kernel's text began."""
_MOST_CPUS = 65_535
_MOST_RATE_HZ = 10**9


class Tools(NamedTuple):
    """What an import needs from outside."""

    kernel: KernelSource
    sources: SymbolSources
    decompressor: Callable[[], Callable[[bytes], bytes]] | None = None
    """Makes a function that takes the next piece of a zstd stream."""
    engine: Engine = ArrayEngine()
    name_callers: bool = True
    """A return address belongs to the call before it; perf itself names what comes after."""


def import_perf(raw: bytes | memoryview, tools: Tools, source: str) -> Capture:
    opened = open_perf(raw)
    stream = plain_stream(opened, tools.decompressor, tools.engine.walk)
    samples = read_samples(stream.words, stream.walk.samples, opened.events, tools.engine.columns)
    side = read_side(_records(stream), opened.events.all[0])
    side.build_ids.update(opened.build_ids)
    side.build_ids[VDSO] = opened.kernel or ""
    spaces = _with_build_ids(follow(side.changes), side.build_ids)
    gaps = list(stream.gaps) + _sample_gaps(opened, samples, side)
    if not len(samples.time):
        if not gaps:
            raise BrokenCapture("it holds no sample: perf recorded nothing", "record again, for longer")
        raise BrokenCapture(f"it holds no sample: {gaps[0].reason}", gaps[0].hint or "copy it again, or record again")
    return _assemble(stream.words, opened, samples, (side, spaces), tools, About(source, gaps=tuple(gaps)))


def _records(stream: Stream) -> list[tuple[int, int, bytes]]:
    raw = stream.words.data.cast("B")
    records = []
    for word in stream.walk.others:
        kind, misc, size = struct.unpack_from("<IHH", raw, word * 8)
        records.append((kind, misc, bytes(raw[word * 8 + 8 : word * 8 + size])))
    return records


def _with_build_ids(spaces: Spaces, build_ids: dict[str, str]) -> Spaces:
    if build_ids:
        for space in spaces.all:
            space.maps = [
                one if one.build_id or one.path not in build_ids else one._replace(build_id=build_ids[one.path])
                for one in space.maps
            ]
    return spaces


def _sample_gaps(opened: PerfFile, samples: Samples, side: Side) -> list[Gap]:
    gaps = []
    if opened.short_by:
        gaps.append(Gap("samples", f"the file ends {opened.short_by:,} bytes early", "copy it again"))
    if samples.broken:
        gaps.append(Gap("samples", f"{samples.broken:,} samples with lengths that cannot be are left out"))
    if side.broken:
        gaps.append(Gap("frames", f"{side.broken:,} records on processes and maps are too short to be read"))
    if side.lost:
        gaps.append(
            Gap("samples", f"the kernel lost {side.lost:,} records: the buffers were full", "record with a lower rate")
        )
    if side.throttled:
        gaps.append(Gap("samples", f"sampling was throttled {side.throttled:,} times", "record with a lower rate"))
    return gaps


def _assemble(
    words: U64, opened: PerfFile, samples: Samples, told: tuple[Side, Spaces], tools: Tools, about: About
) -> Capture:
    side, spaces = told
    table = Frames()
    held = spells(side.kernel_symbols)
    words = moved(words, samples, [one for one in held if one.changes])
    threads = _threads(samples, tools.engine)
    owners = spaces.of_samples(threads, samples.time)
    comm_of, comms = spaces.names_of_samples(threads, samples.time)
    comm_frames = np.array([table.add(name, "") for name in comms], np.uint32)
    stack_of, chosen = tools.engine.distinct(
        words,
        samples.chain_at,
        samples.chain_words,
        owners.astype(np.uint64) << np.uint64(32) | comm_of.view(np.uint64),
    )
    kernel, kernel_gaps = _kernel(tools, side, held)
    stacks = tools.engine.addresses(
        words,
        samples.chain_at[chosen],
        samples.chain_words[chosen],
        owners[chosen],
        callers=tools.name_callers,
    )
    named = symbolise(stacks.addresses, stacks.owners, spaces, kernel, tools.sources, table)
    gaps = _file_gaps(named.unnamed_files)
    tree, leaves = tools.engine.tree(stacks, named.frames, comm_frames[comm_of[chosen]])
    node = leaves[stack_of].astype(np.uint32)
    cgroup_ids, cgroups = _cgroups(samples.cgroup, side)
    return Capture(
        _about(about, opened, side, (*kernel_gaps, *gaps)),
        samples.time,
        np.minimum(samples.cpu, _MOST_CPUS).astype(np.uint16),
        samples.pid,
        samples.tid,
        samples.mode,
        np.minimum(samples.event, 255).astype(np.uint8),
        comm_of.astype(np.uint32),
        cgroup_ids,
        judge_idle(samples.pid, node, tree, table.names),
        node,
        None,
        tree,
        tuple(table.names),
        tuple(table.files),
        tuple(comms),
        tuple(event.title for event in opened.events.all),
        cgroups,
    )


def _threads(samples: Samples, engine: Engine) -> Threads:
    ids, chosen = engine.numbers(samples.tid.astype(np.uint64) << np.uint64(32) | samples.pid)
    return Threads(ids, samples.pid[chosen].tolist(), samples.tid[chosen].tolist())


def _about(about: About, opened: PerfFile, side: Side, gaps: tuple[Gap, ...]) -> About:
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


def _kernel(tools: Tools, side: Side, held: list[Spell]) -> tuple[KernelSymbols, list[Gap]]:
    found = tools.kernel(side.kernel_text)
    symbols, gaps = (no_kernel_symbols(), [found]) if isinstance(found, Gap) else (found, [])
    steady = [KernelSymbol(one.begin, one.start, one.length, one.name) for one in held if not one.changes]
    return symbols.told_also(steady + own_symbols([one for one in held if one.changes])), gaps


def _file_gaps(unnamed: dict[str, Gap]) -> list[Gap]:
    if not unnamed:
        return []
    examples = "; ".join(f"{path} ({gap.reason})" for path, gap in list(unnamed.items())[:3])
    more = f" and {len(unnamed) - 3} more files" if len(unnamed) > 3 else ""
    return [Gap("frames[].name", f"functions not named in {examples}{more}", next(iter(unnamed.values())).hint)]


def _cgroups(raw: U64, side: Side) -> tuple[U32, tuple[str, ...]]:
    if not raw.any():
        return np.zeros(len(raw), np.uint32), ("",)
    ids, chosen = dense_ids(raw)
    names = [side.cgroups.get(number, f"[{number}]" if number else "") for number in raw[chosen].tolist()]
    return (ids + 1).astype(np.uint32), ("", *names)
