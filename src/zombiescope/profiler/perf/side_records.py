# SPDX-License-Identifier: Apache-2.0
"""What is no sample: names, forks, maps, kernel symbols, cgroups, and what the kernel says it lost; and what is said of a perf.data
by it: where it is from, and what could not be read."""

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.profiler.perf import data_file
from zombiescope.profiler.perf.data_file import HEADER_BUILD_ID, Event, PerfFile, build_id_record
from zombiescope.profiler.stacks.about import About

_MMAP, _LOST, _COMM, _THROTTLE, _FORK, _MMAP2, _LOST_SAMPLES, _KSYMBOL, _CGROUP = 1, 2, 3, 5, 7, 10, 13, 17, 19
_COMM_EXEC, _MMAP_BUILD_ID = 1 << 13, 1 << 14
_LEAST_LONG_ID_BYTES, _MOST_ID_BYTES, _ID_END, _MOST_MINORS = 16, 20, 56, 1 << 20
_KERNEL_MODE = _KSYMBOL_GONE = 1


class Renamed(NamedTuple):
    time: int
    pid: int
    tid: int
    name: str
    is_exec: bool


class Forked(NamedTuple):
    time: int
    pid: int
    tid: int
    parent_pid: int
    parent_tid: int


class Mapped(NamedTuple):
    time: int
    pid: int
    start: int
    length: int
    offset: int
    path: str
    build_id: str


class KernelSymbol(NamedTuple):
    time: int
    start: int
    length: int
    name: str
    is_gone: bool = False
    """It was unregistered at this time."""


Change = Renamed | Forked | Mapped


class Side:
    """Filled record by record, then only read."""

    kernel_text: int | None = None
    """Where the kernel's own code began when this was recorded: tells whether a saved kallsyms is of the same boot."""
    told_lost = 0
    """By the kernel, as soon as there is room again for saying so."""
    counted_lost = 0
    """By perf when it ends, from the kernel's counters: the same ones and those that were never told."""
    throttled = 0
    broken = 0

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.kernel_symbols: list[KernelSymbol] = []
        self.cgroups: dict[int, str] = {}
        self.build_ids: dict[str, str] = {}

    @property
    def told_of_code(self) -> bool:
        """Of the kernel's, that came or went; or nobody knows, for records were lost."""
        return bool(self.kernel_symbols or self.lost or self.broken)

    @property
    def lost(self) -> int:
        return max(self.told_lost, self.counted_lost)


def read_side(records: Iterable[tuple[int, int, bytes]], event: Event) -> Side:
    """Records as (type, misc, bytes after the header), in file order."""
    side = Side()
    trailer = event.trailer()
    time_word = trailer.get(data_file.TIME)
    trailer_bytes = len(trailer) * 8
    for kind, misc, body in records:
        if kind not in _READERS:
            continue
        time = 0
        if time_word is not None and len(body) >= trailer_bytes:
            time = struct.unpack_from("<Q", body, len(body) + time_word * 8)[0]
        try:
            _READERS[kind](side, time, misc, body[: len(body) - trailer_bytes] if time_word is not None else body)
        except (struct.error, IndexError):
            side.broken += 1
    side.changes.sort(key=lambda change: change.time)
    side.kernel_symbols.sort(key=lambda symbol: symbol.time)
    return side


def _name(raw: bytes) -> str:
    return shown(raw.split(b"\0", 1)[0])


def _comm(side: Side, time: int, misc: int, body: bytes) -> None:
    pid, tid = struct.unpack_from("<II", body)
    side.changes.append(Renamed(time, pid, tid, _name(body[8:]), bool(misc & _COMM_EXEC)))


def _fork(side: Side, time: int, _misc: int, body: bytes) -> None:
    pid, parent_pid, tid, parent_tid = struct.unpack_from("<IIII", body)
    side.changes.append(Forked(time, pid, tid, parent_pid, parent_tid))


def _mmap(side: Side, time: int, misc: int, body: bytes, name_at: int = 32) -> None:
    pid, _, start, length, offset = struct.unpack_from("<IIQQQ", body)
    path, build_id = _name(body[name_at:]), _id_of(misc, body) if name_at > 32 else ""
    if misc & 7 != _KERNEL_MODE:
        side.changes.append(Mapped(time, pid, start, length, offset, path, build_id))
    elif path.startswith("[kernel.kallsyms]"):
        side.kernel_text = offset or start


def _id_of(misc: int, body: bytes) -> str:
    """Linux 6.18 marks a record so, too, when only another recorder asked for build ids: then device and inode stand there. The
    number of a device (7 loop, 8 sd, 9 md) can pass for a length: but what follows an id is zero, and a short one does not begin
    as a minor number of 20 bits does."""
    size = body[32]
    if not misc & _MMAP_BUILD_ID or size > _MOST_ID_BYTES or any(body[33:36]) or any(body[36 + size : _ID_END]):
        return ""
    is_minor = size < _LEAST_LONG_ID_BYTES and struct.unpack_from("<I", body, 36)[0] < _MOST_MINORS
    return "" if is_minor else body[36 : 36 + size].hex()


def _lost(side: Side, _time: int, _misc: int, body: bytes) -> None:
    side.told_lost += struct.unpack_from("<QQ", body)[1]


def _lost_samples(side: Side, _time: int, _misc: int, body: bytes) -> None:
    side.counted_lost += struct.unpack_from("<Q", body)[0]


def _throttle(side: Side, _time: int, _misc: int, _body: bytes) -> None:
    side.throttled += 1


def _ksymbol(side: Side, time: int, _misc: int, body: bytes) -> None:
    start, length, _, flags = struct.unpack_from("<QIHH", body)
    side.kernel_symbols.append(KernelSymbol(time, start, length, _name(body[16:]), bool(flags & _KSYMBOL_GONE)))


def _cgroup(side: Side, _time: int, _misc: int, body: bytes) -> None:
    side.cgroups[struct.unpack_from("<Q", body)[0]] = _name(body[8:])


def _build_id(side: Side, _time: int, misc: int, body: bytes) -> None:
    side.build_ids.update([build_id_record(b"\0" * 8 + body, misc)])


_READERS: dict[int, Callable[[Side, int, int, bytes], None]] = {
    _MMAP: _mmap,
    _LOST: _lost,
    _COMM: _comm,
    _THROTTLE: _throttle,
    _FORK: _fork,
    _MMAP2: partial(_mmap, name_at=64),
    _LOST_SAMPLES: _lost_samples,
    _KSYMBOL: _ksymbol,
    _CGROUP: _cgroup,
    HEADER_BUILD_ID: _build_id,
}


_MOST_RATE_HZ = 10**9


def records_at(raw: memoryview, words: Iterable[int]) -> Iterator[tuple[int, int, bytes]]:
    """As (type, misc, bytes after the header)."""
    for word in words:
        kind, misc, size = struct.unpack_from("<IHH", raw, word * 8)
        yield kind, misc, bytes(raw[word * 8 + 8 : word * 8 + size])


def stream_gaps(opened: PerfFile, why: str, end: int, total: int) -> tuple[Gap, ...]:
    """Of records that lie in the file as they are: where reading ended, in words, and why."""
    left = opened.data_to - opened.data_from - total * 8
    if why or not left:
        return walk_gaps(why, end, total, opened.data_from)
    # Too little for a record's header: a stream that was cut there.
    cut = f"at byte {opened.data_to - left:,}: the last {left} bytes are only the beginning of a record"
    return (Gap("samples", cut, "copy the file again"),)


def walk_gaps(why: str, end: int, total: int, data_from: int) -> tuple[Gap, ...]:
    if not why:
        return ()
    where = f"at byte {data_from + end * 8:,}: {why}"
    return (Gap("samples", f"{where}; the last {(total - end) * 8:,} bytes are not read", "copy the file again"),)


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
