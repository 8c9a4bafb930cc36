# SPDX-License-Identifier: Apache-2.0
"""A perf.data file or pipe, opened: events, features, and where the records lie.

File mode has a header with sections; pipe mode (`perf record -o -`) has 16 bytes and then records that say the same.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple, Protocol, SupportsInt

from zombiescope.facts.names import shown
from zombiescope.profiler.stacks.about import BrokenCapture, Clock

IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU = (1 << bit for bit in range(8))
PERIOD, STREAM_ID, RAW, BRANCH_STACK, REGS_USER, STACK_USER = (1 << bit for bit in range(8, 14))
WEIGHT, DATA_SRC, IDENTIFIER, TRANSACTION, REGS_INTR, PHYS_ADDR = (1 << bit for bit in range(14, 20))
CGROUP, WEIGHT_STRUCT = 1 << 21, 1 << 24

_BEFORE_CHAIN = (IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD)
_TRAILER = (TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER)
_OF_ANY_LENGTH = RAW | BRANCH_STACK | REGS_USER | STACK_USER | REGS_INTR
_AFTER_CHAIN = (WEIGHT | WEIGHT_STRUCT, DATA_SRC, TRANSACTION, PHYS_ADDR)
_READ_ENABLED, _READ_RUNNING, _READ_ID, _READ_GROUP, _READ_LOST = (1 << bit for bit in range(5))
_FREQUENCY, _SAMPLE_ID_ALL, _USE_CLOCKID, _KSYMBOLS = 1 << 10, 1 << 18, 1 << 25, 1 << 29
ATTR_WORDS_BYTES = 48
_KNOWN_EVENTS = {
    (0, 0): "cycles",
    (0, 1): "instructions",
    (1, 0): "cpu-clock",
    (1, 1): "task-clock",
    (1, 2): "page-faults",
    (1, 3): "context-switches",
}


class Layout(NamedTuple):
    at: dict[int, int]
    """The word of each fixed field."""
    chain: int | None
    """The word of the call chain's length, before what a group of counters takes."""
    read_group: tuple[int, int] | None
    """Where a group of counters precedes the chain: words before the counters (their number first), words a counter."""
    cgroup_after_chain: int | None
    least_words: int


class Event(NamedTuple):
    kind: int
    config: int
    rate: int
    """Samples a second when `is_frequency`, else events between two samples."""
    sample_type: int
    read_format: int
    flags: int
    clock: int | None
    ids: tuple[int, ...] = ()
    name: str = ""

    @property
    def is_frequency(self) -> bool:
        return bool(self.flags & _FREQUENCY)

    @property
    def tells_code(self) -> bool:
        """Whether code of the kernel that comes or goes while it runs, such as programs of BPF, is recorded."""
        return bool(self.flags & _KSYMBOLS)

    @property
    def title(self) -> str:
        return self.name or _KNOWN_EVENTS.get((self.kind, self.config), f"event {self.kind}:{self.config:#x}")

    def layout(self) -> Layout:
        present = [bit for bit in _BEFORE_CHAIN if self.sample_type & bit]
        at = {bit: word for word, bit in enumerate(present, 1)}
        fixed, group = self._counters() if self.sample_type & READ else (0, None)
        word = 1 + len(at) + fixed
        chain = word if self.sample_type & CALLCHAIN else None
        return Layout(at, chain, group, self._cgroup(), word + (1 if chain is not None else 0))

    def _counters(self) -> tuple[int, tuple[int, int] | None]:
        form = self.read_format
        times = bool(form & _READ_ENABLED) + bool(form & _READ_RUNNING)
        each = 1 + bool(form & _READ_ID) + bool(form & _READ_LOST)
        return (0, (1 + times, each)) if form & _READ_GROUP else (times + each, None)

    def _cgroup(self) -> int | None:
        """Words between the end of the chain and the cgroup id; None where something of any length lies between."""
        if not self.sample_type & CGROUP or self.sample_type & _OF_ANY_LENGTH:
            return None
        return sum(1 for bits in _AFTER_CHAIN if self.sample_type & bits)

    def trailer(self) -> dict[int, int]:
        """Words from the end of a record that is no sample (negative), when the event asked for them."""
        if not self.flags & _SAMPLE_ID_ALL:
            return {}
        there = [bit for bit in _TRAILER if self.sample_type & bit]
        return {bit: index - len(there) for index, bit in enumerate(there)}


class Events(NamedTuple):
    all: tuple[Event, ...]
    by_id: dict[int, int]

    @classmethod
    def of(cls, events: list[Event]) -> "Events":
        return cls(tuple(events), {number: index for index, event in enumerate(events) for number in event.ids})


def read_event(raw: bytes, ids: tuple[int, ...] = (), name: str = "") -> Event:
    """One perf_event_attr; older and newer kernels' lengths both."""
    if len(raw) < ATTR_WORDS_BYTES:
        raise BrokenCapture(f"an event description of {len(raw)} bytes is too short", "record it again")
    kind, _, config, rate, sample_type, read_format, flags = struct.unpack_from("<IIQQQQQ", raw)
    clock = struct.unpack_from("<i", raw, 92)[0] if flags & _USE_CLOCKID and len(raw) >= 96 else None
    return Event(kind, config, rate, sample_type, read_format, flags, clock, ids, name)


Buffer = bytes | memoryview
MAGIC = b"PERFILE2"
_MAGIC_OTHER_ENDIAN = b"2ELIFREP"
_PIPE_HEADER_BYTES, _FILE_HEADER_BYTES = 16, 104
_BUILD_ID, _HOSTNAME, _OS_RELEASE, _EVENT_DESC, _CLOCK_DATA = 2, 3, 4, 12, 29
_MOST_EVENTS, _MOST_IDS = 4096, 1 << 20
HEADER_ATTR, HEADER_BUILD_ID, HEADER_FEATURE = 64, 67, 80
_TRACING_DATA, _AUXTRACE = 66, 71
SAMPLE = 9
COMPRESSED, COMPRESSED2 = 81, 83
_BUILD_ID_SIZE = 1 << 15
_NO_SECTION = memoryview(b"")


class PerfFile(NamedTuple):
    buffer: memoryview
    data_from: int
    data_to: int
    events: Events
    is_pipe: bool
    build_ids: dict[str, str]
    hostname: str | None = None
    kernel: str | None = None
    clock: Clock | None = None
    short_by: int = 0
    """Bytes that the header promises and the file does not have."""


def open_perf(raw: Buffer) -> PerfFile:
    buffer = memoryview(raw)
    if len(buffer) < _PIPE_HEADER_BYTES:
        raise BrokenCapture(f"it has {len(buffer)} bytes: less than a perf.data header", "record it again")
    magic, size = struct.unpack_from("<8sQ", buffer)
    if magic == _MAGIC_OTHER_ENDIAN:
        raise BrokenCapture("it was recorded on a big-endian machine", "import it there, then copy the result")
    if magic != MAGIC:
        raise BrokenCapture(
            f"it begins with {shown(bytes(magic))}, not with {MAGIC.decode()}", "is it a perf.data file?"
        )
    return _open_pipe(buffer) if size == _PIPE_HEADER_BYTES else _open_file(buffer)


def _open_file(buffer: memoryview) -> PerfFile:
    if len(buffer) < _FILE_HEADER_BYTES:
        raise BrokenCapture(f"the header ends at byte {len(buffer)} of {_FILE_HEADER_BYTES}", "record it again")
    attr_bytes, attrs_at, attrs_bytes, data_at, data_bytes = struct.unpack_from("<5Q", buffer, 16)
    if data_bytes == 0 and data_at < len(buffer):
        # The recorder was killed before it wrote the length: everything after the header is records.
        data_bytes = len(buffer) - data_at
    if data_at > len(buffer):
        raise BrokenCapture(
            f"records are said to begin at byte {data_at} of {len(buffer)}", "the file was cut: copy it again"
        )
    features = dict(_features(buffer, data_at + data_bytes))
    events = _with_names(_attrs(buffer, attr_bytes, attrs_at, attrs_bytes), features)
    ends = data_at + data_bytes
    opened = PerfFile(buffer, data_at, min(ends, len(buffer)), Events.of(events), is_pipe=False, build_ids={})
    short_by = max(ends, _described_to(buffer, ends)) - len(buffer)
    return _described(opened, features)._replace(short_by=max(0, short_by))


def _attrs(buffer: memoryview, attr_bytes: int, at: int, length: int) -> list[Event]:
    if not 64 <= attr_bytes <= 4096 or at + length > len(buffer) or length // attr_bytes > _MOST_EVENTS:
        raise BrokenCapture(
            f"the events are said to lie at bytes {at} to {at + length}, {attr_bytes} each", "record it again"
        )
    events = []
    for place in range(at, at + length - attr_bytes + 1, attr_bytes):
        ids_at, ids_bytes = struct.unpack_from("<QQ", buffer, place + attr_bytes - 16)
        if ids_at + ids_bytes > len(buffer) or ids_bytes // 8 > _MOST_IDS:
            raise BrokenCapture(f"the ids of an event are said to lie at byte {ids_at}", "record it again")
        ids = struct.unpack_from(f"<{ids_bytes // 8}Q", buffer, ids_at)
        events.append(read_event(bytes(buffer[place : place + attr_bytes - 16]), ids))
    if not events:
        raise BrokenCapture("it describes no event", "record it again")
    return events


def _features(buffer: memoryview, table_at: int) -> Iterator[tuple[int, memoryview]]:
    """Sections after the records; a cut file has lost them, which is no reason to refuse its samples."""
    bits = int.from_bytes(buffer[72:104], "little")
    for bit in range(256):
        if bits >> bit & 1:
            if table_at + 16 > len(buffer):
                return
            at, length = struct.unpack_from("<QQ", buffer, table_at)
            table_at += 16
            if at + length <= len(buffer):
                yield bit, buffer[at : at + length]


def _described_to(buffer: memoryview, table_at: int) -> int:
    """Where the last section ends, or their table: without build ids and clock a capture says less than it seems to."""
    table_to = table_at + 16 * int.from_bytes(buffer[72:104], "little").bit_count()
    if table_to > len(buffer):
        return table_to
    return max([table_to, *(int(at + length) for at, length in struct.iter_unpack("<QQ", buffer[table_at:table_to]))])


def _described(opened: PerfFile, features: dict[int, memoryview]) -> PerfFile:
    clock = features.get(_CLOCK_DATA, b"")
    return opened._replace(
        build_ids=opened.build_ids | dict(_build_ids(features.get(_BUILD_ID, _NO_SECTION))),
        clock=Clock(*struct.unpack_from("<QQ", clock, 8)) if len(clock) >= 24 else None,
        hostname=_string(features.get(_HOSTNAME, _NO_SECTION)) or None,
        kernel=_string(features.get(_OS_RELEASE, _NO_SECTION)) or None,
    )


def _string(section: memoryview) -> str:
    if len(section) < 4:
        return ""
    return shown(bytes(section[4 : 4 + min(struct.unpack_from("<I", section)[0], 4096)]).split(b"\0")[0])


def _build_ids(section: memoryview) -> Iterator[tuple[str, str]]:
    at = 0
    while at + 36 <= len(section):
        _, misc, size = struct.unpack_from("<IHH", section, at)
        if size < 36 or at + size > len(section):
            return
        yield build_id_record(bytes(section[at : at + size]), misc)
        at += size


def build_id_record(record: bytes, misc: int) -> tuple[str, str]:
    """Path and build id of a HEADER_BUILD_ID record; the length byte is newer than the record."""
    length = min(record[32], 20) if misc & _BUILD_ID_SIZE else 20
    return shown(record[36:].split(b"\0")[0]), record[12 : 12 + (length or 20)].hex()


def _with_names(events: list[Event], features: dict[int, memoryview]) -> list[Event]:
    names = [*_event_names(features.get(_EVENT_DESC, _NO_SECTION)), *[""] * len(events)]
    return [event._replace(name=name) for event, name in zip(events, names, strict=False)]


def _event_names(section: memoryview) -> Iterator[str]:
    if len(section) < 8:
        return
    count, attr_bytes = struct.unpack_from("<II", section)
    at = 8
    for _ in range(min(count, _MOST_EVENTS)):
        at += attr_bytes
        if at + 8 > len(section):
            return
        ids, length = struct.unpack_from("<II", section, at)
        yield shown(bytes(section[at + 8 : at + 8 + min(length, 4096)]).split(b"\0")[0])
        at += 8 + length + 8 * ids


def _open_pipe(buffer: memoryview) -> PerfFile:
    """The describing records of a pipe lead it; look at those before the first record of the kernel."""
    events, at = list[Event](), _PIPE_HEADER_BYTES
    features, build_ids = dict[int, memoryview](), dict[str, str]()
    while at + 8 <= len(buffer):
        kind, misc, size = struct.unpack_from("<IHH", buffer, at)
        if size < 8 or at + size > len(buffer) or kind < HEADER_ATTR:
            break
        record = buffer[at : at + size]
        if kind == HEADER_ATTR and size >= 8 + 64:
            events.append(_pipe_event(record))
        elif kind == HEADER_FEATURE and size >= 16:
            features[struct.unpack_from("<Q", record, 8)[0]] = record[16:]
        elif kind == HEADER_BUILD_ID and size >= 36:
            build_ids.update([build_id_record(bytes(record), misc)])
        at += size + trailing_bytes(kind, int.from_bytes(record[8:16], "little"))
    if not events:
        raise BrokenCapture(f"no event is described before byte {at} of the stream", "was its beginning cut off?")
    named = Events.of(_with_names(events, features))
    return _described(PerfFile(buffer, at, len(buffer), named, is_pipe=True, build_ids=build_ids), features)


def _pipe_event(record: memoryview) -> Event:
    told = struct.unpack_from("<I", record, 12)[0]
    attr_bytes = told if 64 <= told <= len(record) - 8 else 64
    raw_ids = record[8 + attr_bytes :]
    return read_event(bytes(record[8 : 8 + attr_bytes]), struct.unpack_from(f"<{len(raw_ids) // 8}Q", raw_ids))


def trailing_bytes(kind: int, first_word: int) -> int:
    """What follows a record without being part of its size: tracing data and hardware traces. Their size is its first word."""
    if kind == _TRACING_DATA:
        return (first_word & 0xFFFFFFFF) + 7 & ~7
    return first_word if kind == _AUXTRACE else 0


class Words(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> SupportsInt: ...


def why_ended(words: Words, least_sample_words: int, at: int) -> tuple[int, str, bool]:
    """The end, what makes no sense there, and whether what follows is compressed."""
    total = len(words)
    if at >= total:
        return total, "" if at == total else "the last record is cut off", False
    kind, size = int(words[at]) & 0xFFFFFFFF, int(words[at]) >> 48
    if kind in (COMPRESSED, COMPRESSED2):
        return at, "", True
    return at, wrong_with(kind, size, at, total, least_sample_words), False


def wrong_with(kind: int, size: int, at: int, total: int, least_sample_words: int) -> str:
    if size < 8:
        return f"a record of {size} bytes"
    if size & 7 and kind not in (COMPRESSED, COMPRESSED2):
        return f"a record of {size} bytes, which is no multiple of 8"
    if at + (size >> 3) > total:
        return f"a record of {size} bytes, of which {(total - at) * 8} are there"
    if kind == SAMPLE and size >> 3 < least_sample_words:
        return f"a sample of {size} bytes, too short for its event"
    return ""
