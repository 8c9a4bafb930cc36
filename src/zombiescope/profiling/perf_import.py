# SPDX-License-Identifier: Apache-2.0
"""perf.data to a capture, without perf: walk, columns, address spaces, distinct stacks, symbols, tree."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.profiling.address_spaces import Spaces, follow
from zombiescope.profiling.arrays import I64, U32, U64, dense_ids, ranges, sequence_hashes
from zombiescope.profiling.broken import BrokenCapture
from zombiescope.profiling.call_tree import CallTree, build_tree
from zombiescope.profiling.capture import About, Capture, judge_idle
from zombiescope.profiling.kernel_symbols import KernelSymbols, no_kernel_symbols
from zombiescope.profiling.perf_file import PerfFile, open_perf
from zombiescope.profiling.perf_samples import Samples, read_samples
from zombiescope.profiling.perf_side import Side, read_side
from zombiescope.profiling.perf_stream import Stream, plain_stream
from zombiescope.profiling.symbolise import FIRST_KERNEL_ADDRESS, FIRST_MARKER, Frames, SymbolSources, symbolise

KernelSource = Callable[[int | None], KernelSymbols | Gap]
"""Given where the recorded kernel's text began."""
_MOST_CPUS = 65_535


class Interning(Protocol):
    def distinct(self, words: U64, starts: I64, lengths: I64, salts: U64) -> tuple[I64, I64]:
        """As `dense_ids`, of whole sequences."""
        ...


class ArrayInterning:
    """With numpy alone: equal hashes are equal stacks."""

    def distinct(self, words: U64, starts: I64, lengths: I64, salts: U64) -> tuple[I64, I64]:
        if not len(starts):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        order = np.argsort(starts) if np.any(starts[1:] < starts[:-1]) else None
        if order is None:
            return dense_ids(sequence_hashes(words, starts, lengths, salts))
        hashes = np.empty(len(starts), np.uint64)
        hashes[order] = sequence_hashes(words, starts[order], lengths[order], salts[order])
        return dense_ids(hashes)


@dataclass(frozen=True, slots=True)
class Tools:
    """What an import needs from outside."""

    kernel: KernelSource
    sources: SymbolSources
    decompressor: Callable[[], Callable[[bytes], bytes]] | None = None
    """Makes a function that takes the next piece of a zstd stream."""
    interning: Interning = field(default_factory=ArrayInterning)
    name_callers: bool = True
    """A return address belongs to the call before it; perf itself names what comes after."""


def import_perf(raw: bytes | memoryview, tools: Tools, source: str) -> Capture:
    opened = open_perf(raw)
    stream = plain_stream(opened, tools.decompressor)
    samples = read_samples(stream.words, stream.walk.samples, opened.events)
    side = read_side(_records(stream), opened.events.all[0])
    side.build_ids.update(opened.build_ids)
    spaces = _with_build_ids(follow(side.changes), side.build_ids)
    gaps = list(stream.gaps) + _sample_gaps(opened, samples, side)
    if not len(samples):
        why = gaps[0].reason if gaps else "perf recorded nothing"
        raise BrokenCapture(f"it holds no sample: {why}", "record again, for longer")
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
    owners = spaces.of_samples(samples.pid, samples.time)
    comm_of, comms = spaces.names_of_samples(samples.tid, samples.time)
    comm_frames = np.array([table.add(name, "") for name in comms], np.uint32)
    salts = (owners + 1).astype(np.uint64) << np.uint64(32) | comm_of.astype(np.uint64)
    stack_of, chosen = tools.interning.distinct(words, samples.chain_at, samples.chain_words, salts)
    kernel, kernel_gaps = _kernel(tools, side)
    frames, starts, lengths, gaps = _frames_of(
        words, samples.picked(chosen), owners[chosen], spaces, (kernel, tools, table)
    )
    roots = comm_frames[comm_of[chosen]]
    tree, leaves = _tree(frames, starts, lengths, roots)
    node = leaves[stack_of].astype(np.uint32)
    cgroup_ids, cgroups = _cgroups(samples.cgroup, side)
    rates = [event.rate for event in opened.events.all if event.is_frequency]
    return Capture(
        replace(
            about,
            host=opened.hostname,
            kernel=opened.kernel,
            clock=opened.clock,
            rate_hz=float(rates[0]) if rates else None,
            lost=side.lost,
            throttled=side.throttled,
            gaps=(*about.gaps, *kernel_gaps, *gaps),
        ),
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


def _kernel(tools: Tools, side: Side) -> tuple[KernelSymbols, list[Gap]]:
    found = tools.kernel(side.kernel_text)
    symbols, gaps = (no_kernel_symbols(), [found]) if isinstance(found, Gap) else (found, [])
    return symbols.told_also(side.kernel_symbols), gaps


def _frames_of(
    words: U64, stacks: Samples, owners: I64, spaces: Spaces, tools: tuple[KernelSymbols, Tools, Frames]
) -> tuple[U32, I64, I64, list[Gap]]:
    """The frames of each distinct stack, root first, one after the other."""
    kernel, given, table = tools
    lengths = stacks.chain_words
    addresses = words[ranges(stacks.chain_at, lengths)]
    owner = np.repeat(owners, lengths)
    markers = addresses >= np.uint64(FIRST_MARKER)
    if given.name_callers:
        addresses = _calls(addresses, markers, lengths)
    in_kernel = addresses >= np.uint64(FIRST_KERNEL_ADDRESS)
    keys = np.where(in_kernel, addresses, addresses ^ ((owner.astype(np.uint64) + np.uint64(1)) << np.uint64(47)))
    ids, chosen = dense_ids(keys)
    symbolised = symbolise(addresses[chosen], owner[chosen], spaces, kernel, given.sources, table)
    frames = symbolised.frames[ids]
    kept = ~markers
    counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    ends = np.cumsum(lengths)
    lengths = counts[ends] - counts[ends - lengths]
    ends = np.cumsum(lengths)
    # Leaf first becomes root first: reversed as a whole, each stack lies at the mirrored place.
    frames = frames[kept][::-1]
    return frames, len(frames) - ends, lengths, _file_gaps(symbolised.unnamed_files)


def _calls(addresses: U64, markers: np.ndarray[tuple[int], np.dtype[np.bool_]], lengths: I64) -> U64:
    """Every address but the first of its kind is where a call returns to: one less lies inside the call."""
    returns = ~markers
    returns[1:] &= ~markers[:-1]
    starts = np.cumsum(lengths) - lengths
    returns[starts[lengths > 0]] = False
    calls: U64 = addresses - (returns & (addresses != 0))
    return calls


def _file_gaps(unnamed: dict[str, Gap]) -> list[Gap]:
    if not unnamed:
        return []
    examples = "; ".join(f"{path} ({gap.reason})" for path, gap in list(unnamed.items())[:3])
    more = f" and {len(unnamed) - 3} more files" if len(unnamed) > 3 else ""
    return [Gap("frames[].name", f"functions not named in {examples}{more}", next(iter(unnamed.values())).hint)]


def _tree(frames: U32, starts: I64, lengths: I64, roots: U32) -> tuple[CallTree, I64]:
    """Distinct symbolised stacks below the name of their thread."""
    order = np.argsort(starts)
    hashes = np.empty(len(starts), np.uint64)
    wide = frames.astype(np.uint64)
    hashes[order] = sequence_hashes(wide, starts[order], lengths[order], roots[order].astype(np.uint64))
    ids, chosen = dense_ids(hashes)
    starts, lengths, roots = starts[chosen], lengths[chosen], roots[chosen]
    joined = np.empty(int(lengths.sum()) + len(lengths), np.uint32)
    begins = np.cumsum(lengths + 1) - (lengths + 1)
    joined[begins] = roots
    joined[ranges(begins + 1, lengths)] = frames[ranges(starts, lengths)]
    tree, leaves = build_tree(joined, begins, lengths + 1)
    return tree, leaves[ids]


def _cgroups(raw: U64, side: Side) -> tuple[U32, tuple[str, ...]]:
    if not raw.any():
        return np.zeros(len(raw), np.uint32), ("",)
    ids, chosen = dense_ids(raw)
    names = [side.cgroups.get(number, f"[{number}]" if number else "") for number in raw[chosen].tolist()]
    return (ids + 1).astype(np.uint32), ("", *names)
