# SPDX-License-Identifier: Apache-2.0
"""perf.data to the file of a capture by the scanner alone: numpy is never loaded, which takes as long as all the rest.

Step by step what `perf/importing.py` and `formats/capture_file.py` do, and the same capture. What is rare is left to them.
"""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.profiler.files.columns import Column, Form, Lent, Library, UnusualError, layout_words
from zombiescope.profiler.files.direct_names import Group, Pairs, Told, kernel_table, name_group, name_kernel
from zombiescope.profiler.files.symbol_files import SymbolFiles
from zombiescope.profiler.formats.capture_heading import (
    PROBED_BYTES,
    Ascending,
    Packed,
    Plane,
    column,
    frame_texts,
    pieces_of,
)
from zombiescope.profiler.perf import data_file as layout_of
from zombiescope.profiler.perf.data_file import Event, PerfFile, open_perf, why_ended
from zombiescope.profiler.perf.frames import UNKNOWN, VDSO, Frames, is_made_while_running
from zombiescope.profiler.perf.side_records import (
    Side,
    about_it,
    file_gaps,
    read_side,
    records_at,
    sample_gaps,
    stream_gaps,
)
from zombiescope.profiler.stacks.about import IDLE_ROUTINES, About

_MOST_EVENTS = 255
_MOST_CHANGING = 4096
_OF_STACKS: tuple[Form, ...] = ("q", "q", "q", "I")
_OF_SAMPLES: tuple[Form, ...] = ("Q", "I", "I", "I", "B", "Q", "q", "q")
_MOST_CORES = 65_536


class Wanted(NamedTuple):
    """How things are named."""

    kallsyms: bytes | None
    sources: SymbolFiles
    name_callers: bool


class Made(NamedTuple):
    about: About
    pieces: Iterator[bytes]
    rows: int
    samples: int
    """What the rows stand for."""
    seconds: float
    cores: int


class _Stream(NamedTuple):
    library: Library
    opened: PerfFile
    raw: memoryview
    at: Lent
    total: int


class _Samples(NamedTuple):
    rows: int
    broken: int
    event: int
    time: Column
    cpu: Column
    pid: Column
    tid: Column
    mode: Column
    chain_at: Column
    chain_words: Column


def import_directly(raw: memoryview, source: str, wanted: Wanted, library: Library) -> Made:
    """Raises UnusualError where it is left to the import with numpy: that one also says what is wrong with a file."""
    opened = open_perf(raw)
    data = opened.buffer[opened.data_from : opened.data_to]
    if opened.data_from & 7:
        raise UnusualError
    words = data[: len(data) & ~7]
    stream = _Stream(library, opened, words, Lent(words), len(words) // 8)
    places, others, walk_gaps = _walk(stream)
    samples = _columns(stream, places)
    followed = _Followed(stream, others)
    try:
        about = About(source, gaps=(*walk_gaps, *sample_gaps(opened, samples.broken, followed.side)))
        return _assemble(stream, samples, followed, wanted, about)
    finally:
        followed.forget()


def _walk(stream: _Stream) -> tuple[Column, Column, tuple[Gap, ...]]:
    least = min(event.layout().least_words for event in stream.opened.events.all)
    room = stream.total // max(1, least) + 1
    samples, others, told = Column("q", room), Column("q", stream.total + 1), Column("q", 2)
    found = stream.library.call("zs_walk", stream.at, stream.total, least, samples, others, told)
    end, why, is_compressed = why_ended(stream.raw.cast("Q"), least, told.view[0])
    if is_compressed or not found:
        raise UnusualError
    return (
        samples.first(found),
        others.first(told.view[1]),
        stream_gaps(stream.opened, why, end, stream.total),
    )


def _columns(stream: _Stream, places: Column) -> _Samples:
    events, count = stream.opened.events, len(places)
    first = events.all[0].layout().at
    id_word = first.get(layout_of.IDENTIFIER, first.get(layout_of.ID))
    if len(events.all) == 1 or not events.by_id or id_word is None:
        id_word = -1
    ids = sorted(events.by_id)
    known = Column.of("Q", ids), Column.of("q", [events.by_id[number] for number in ids])
    # Which event, before any order: its layout says where the time is.
    given = (stream.at, stream.total, places, count)
    event = stream.library.call("zs_by_time", *given, -1, id_word, *known, len(ids))
    layout = events.all[event].layout()
    if layout.cgroup_after_chain is not None:
        raise UnusualError
    stream.library.call("zs_by_time", *given, layout.at.get(layout_of.TIME, -1), -1, *known, 0)
    made = [Column(form, count) for form in _OF_SAMPLES]
    rows = stream.library.call("zs_columns", *given, Lent(layout_words(layout)), *made)
    if not rows:
        raise UnusualError
    time, cpu, pid, tid, mode, _, chain_at, chain_words = (each.first(rows) for each in made)
    return _Samples(rows, count - rows, event, time, cpu, pid, tid, mode, chain_at, chain_words)


class _Followed:
    """Names, forks and maps, kept by the library until they are forgotten."""

    def __init__(self, stream: _Stream, others: Column) -> None:
        self.library = stream.library
        event = stream.opened.events.all[0]
        trailer = event.trailer()
        time_word = trailer.get(layout_of.TIME)
        left, told, handle = Column("q", len(others)), Column("q", 3), Column("Q", 1)
        cut = (0, 0) if time_word is None else (len(trailer), time_word)
        given = (stream.at, stream.total, others, len(others), *cut)
        self.library.call("zs_follow", *given, left, told, handle)
        self.handle, self.names, self.files = handle.view[0], told.view[1], told.view[2]
        try:
            self._describe(stream, event, left.view[: told.view[0]])
        except BaseException:
            self.forget()
            raise

    def _describe(self, stream: _Stream, event: Event, left: memoryview) -> None:
        opened = stream.opened
        self.side: Side = read_side(records_at(stream.raw, left), event)
        self.side.build_ids.update(opened.build_ids)
        self.side.build_ids[VDSO] = opened.kernel or ""
        texts = Column("q", 4 * self.names)
        self.library.answer("zs_texts", self.handle, 0, texts)
        names = [_text(stream.raw, texts, number) for number in range(self.names)]
        texts = Column("q", 4 * self.files)
        self.library.answer("zs_texts", self.handle, 1, texts)
        self.paths = [_text(stream.raw, texts, number) for number in range(self.files)]
        ids = [bytes(stream.raw[at : at + length]).hex() for at, length in zip(*_id_places(texts), strict=True)]
        self.build_ids = [own or self.side.build_ids.get(path, "") for own, path in zip(ids, self.paths, strict=True)]
        order = Column("q", self.names)
        found = self.library.answer("zs_names", self.handle, order, Column("B", self.names))
        self.comms = [names[number] for number in order.view[:found]]
        self.number = Column("q", self.names)
        for position, number in enumerate(order.view[:found]):
            self.number.view[number] = position

    def forget(self) -> None:
        self.library.answer("zs_forget", self.handle)


def _text(raw: memoryview, texts: Column, number: int) -> str:
    at, length = texts.view[4 * number], texts.view[4 * number + 1]
    return shown(bytes(raw[at : at + length]))


def _id_places(texts: Column) -> tuple[list[int], list[int]]:
    places = texts.view.tolist()
    return places[2::4], places[3::4]


class _Who(NamedTuple):
    """Of each sample: its thread, address space and name, and a key of the last two."""

    thread: Column
    owner: Column
    comm: Column
    salt: Column
    comms: list[str]


def _who(library: Library, samples: _Samples, followed: _Followed) -> _Who:
    rows = samples.rows
    keys, thread, chosen = Column("Q", rows), Column("q", rows), Column("q", rows)
    library.answer("zs_thread_keys", samples.pid, samples.tid, rows, keys)
    threads = library.call("zs_numbers", keys, rows, thread, chosen)
    known = {name: number for number, name in enumerate(followed.comms)}
    idle = known.setdefault("swapper", len(known))
    stranger = known.setdefault("[unknown]", len(known))
    owner, comm, salt, unnamed = Column("q", rows), Column("I", rows), Column("Q", rows), Column("q", 1)
    given = (followed.handle, samples.time, samples.pid, samples.tid, thread, rows, threads)
    library.call("zs_who", *given, followed.number, idle, stranger, owner, comm, salt, unnamed)
    return _Who(thread, owner, comm, salt, list(known) if unnamed.view[0] else followed.comms)


class _Tree(NamedTuple):
    nodes: int
    frames: Column
    sizes: Column
    leaves: Column


class _Stacks:
    """The distinct ones, as ids of distinct (address, space) pairs."""

    def __init__(
        self, library: Library, stream: _Stream, samples: _Samples, who: tuple[_Who, Column], *, callers: bool
    ) -> None:
        whose, chosen = who
        self.count = len(chosen)
        starts, lengths, owners, comms = (Column(form, self.count) for form in _OF_STACKS)
        of_samples = (samples.chain_at, samples.chain_words, whose.owner, whose.comm, chosen, self.count)
        library.answer("zs_chosen", *of_samples, starts, lengths, owners, comms)
        self.comms = comms
        most = library.call("zs_total", lengths, self.count)
        self.ids = Column("I", most + 2 * self.count)
        self.starts, self.lengths = Column("q", self.count), Column("q", self.count)
        addresses, owner_of = Column("Q", most), Column("q", most)
        given = (stream.at, stream.total, starts, lengths, owners, self.count, int(callers))
        pairs = library.call("zs_addresses", *given, self.ids, self.starts, self.lengths, addresses, owner_of)
        self.room = library.call("zs_total", self.lengths, self.count) + 2 * self.count
        self.pairs = Pairs(pairs, addresses.first(pairs), owner_of.first(pairs), Column("I", pairs))

    def tree(self, library: Library, comm_frames: "array[int]") -> _Tree:
        roots, room = Column("I", self.count), self.room + 1
        library.answer("zs_roots", self.comms, self.count, Lent(comm_frames), roots)
        frames, sizes, leaves = Column("I", room), Column("I", room), Column("q", self.count)
        given = (self.ids, self.room, self.pairs.frames, self.pairs.total, self.starts, self.lengths, roots)
        nodes = library.call("zs_tree", *given, self.count, room, frames, sizes, leaves)
        return _Tree(nodes, frames, sizes, leaves)


def _told_symbols(stream: _Stream, samples: _Samples, side: Side) -> list[Told]:
    """Kernel symbols that records told of; stacks are changed where one holds that came or went meanwhile."""
    if not side.kernel_symbols:
        return []
    from zombiescope.profiler.perf.kernel_code import own_symbols, spells  # noqa: PLC0415 (most captures tell of none)

    held = spells(side.kernel_symbols)
    changing = [one for one in held if one.changes]
    if len(changing) > _MOST_CHANGING:
        raise UnusualError
    own = own_symbols(changing)
    spans = [
        [one.start for one in changing],
        [min(one.start + one.length, (1 << 64) - 1) for one in changing],
        [one.begin for one in changing],
        [one.end for one in changing],
        [one.start for one in own],
    ]
    if changing:
        given = (stream.at, stream.total, samples.chain_at, samples.chain_words, samples.time, samples.rows)
        stream.library.call("zs_moved", *given, *(Column.of("Q", each) for each in spans), len(changing))
    return [
        *((one.start, one.length, one.name) for one in held if not one.changes),
        *((one.start, one.length, one.name) for one in own),
    ]


def _assemble(stream: _Stream, samples: _Samples, followed: _Followed, wanted: Wanted, about: About) -> Made:
    library, rows, side = stream.library, samples.rows, followed.side
    told = _told_symbols(stream, samples, side)
    table = Frames()
    who = _who(library, samples, followed)
    comm_frames = array("I", [table.add(name, "") for name in who.comms])
    stack_of, chosen = Column("q", rows), Column("q", rows)
    given = (stream.at, stream.total, samples.chain_at, samples.chain_words, who.salt, rows)
    kinds = library.call("zs_distinct", *given, stack_of, chosen)
    stacks = _Stacks(library, stream, samples, (who, chosen.first(kinds)), callers=wanted.name_callers)
    kernel, kernel_gaps = kernel_table(library, wanted.kallsyms, side.kernel_text)
    stacks.pairs.frames.fill(table.add(UNKNOWN, UNKNOWN))
    name_kernel(library, stacks.pairs, kernel, told, table)
    gaps = file_gaps(_name_files(library, stacks.pairs, followed, wanted.sources, table))
    about = about_it(about, stream.opened, side, (*kernel_gaps, *gaps))
    packed, cores = _packed(library, samples, (who, stack_of), stacks.tree(library, comm_frames), table)
    texts = {
        **frame_texts(table.names, table.files),
        "comms": who.comms,
        "events": [event.title for event in stream.opened.events.all],
        "cgroups": [""],
    }
    seconds = (samples.time.view[rows - 1] - samples.time.view[0]) / 1e9
    return Made(about, pieces_of(about, packed, texts), rows, rows, seconds, cores)


def _name_files(
    library: Library, pairs: Pairs, followed: _Followed, sources: SymbolFiles, table: Frames
) -> dict[str, Gap]:
    """The files whose functions could not be named."""
    made = [is_made_while_running(path) for path in followed.paths]
    first: dict[tuple[str, str], int] = {}
    kinds = [
        first.setdefault((path, "" if is_made else build_id), number)
        for number, (path, build_id, is_made) in enumerate(zip(followed.paths, followed.build_ids, made, strict=True))
    ]
    group, offsets = Column("q", pairs.total), Column("Q", pairs.total)
    kind_of, pid_of = Column("q", pairs.total), Column("q", pairs.total)
    given = (followed.handle, pairs.addresses, pairs.owners, pairs.total, Column.of("q", kinds), Lent(bytes(made)))
    groups = library.call("zs_locate", *given, group, offsets, kind_of, pid_of)
    begins, places = Column("q", groups + 1), Column("q", pairs.total)
    library.answer("zs_grouped", group, pairs.total, groups, begins, places)
    gaps: dict[str, Gap] = {}
    for number in range(groups):
        kind, at, end = kind_of.view[number], begins.view[number], begins.view[number + 1]
        if at == end:
            continue
        build_id = "" if made[kind] else followed.build_ids[kind]
        one = Group(followed.paths[kind], build_id, pid_of.view[number], places, at, end - at)
        gap = name_group(library, one, offsets, pairs, sources, table)
        if gap is not None:
            gaps[one.path] = gap
    return gaps


def _packed(
    library: Library, samples: _Samples, who: tuple[_Who, Column], tree: _Tree, table: Frames
) -> tuple[list[Packed], int]:
    """All columns, and how many cores there are samples of."""
    rows, (whose, stack_of) = samples.rows, who
    node, idle, core, cores = (
        Column("I", rows),
        Column("B", rows),
        Column("H", rows),
        Column("B", _MOST_CORES, zeros=True),
    )
    is_idle = bytes(name in IDLE_ROUTINES for name in table.names)
    given = (stack_of, tree.leaves, len(tree.leaves), tree.frames, tree.nodes, Lent(is_idle), len(is_idle))
    library.call("zs_rows", *given, samples.pid, samples.cpu, rows, node, idle, core, cores)
    keys, thread, chosen = Column("Q", rows), Column("q", rows), Column("q", rows)
    library.answer("zs_keys", whose.thread, whose.comm, rows, keys)
    threads = library.call("zs_numbers", keys, rows, thread, chosen)
    rests = Column("I", tree.nodes)
    library.answer("zs_rests", tree.sizes, tree.nodes, rests)

    def picked(of_rows: Column) -> Column:
        made = Column("I", threads)
        library.answer("zs_pick", of_rows, chosen, threads, made)
        return made

    event = Column("B", rows)
    event.fill(min(samples.event, _MOST_EVENTS))
    columns = {
        "time": samples.time,
        "cpu": core,
        "mode": samples.mode,
        "event": event,
        "idle": idle,
        "node": node,
        "thread": thread,
        "pid": picked(samples.pid),
        "tid": picked(samples.tid),
        "comm": picked(whose.comm),
        "cgroup": Column("B", rows, zeros=True),
        "tree_frame": tree.frames.part(1, tree.nodes),
        "tree_rest": rests,
    }
    return [_pack(library, name, values) for name, values in columns.items()], cores.view.tobytes().count(1)


def _pack(library: Library, name: str, values: Column) -> Packed:
    rows, ascends = len(values), name == "time"
    planes, counts = Column("B", 8 * rows), Column("I", 8 * 256)
    width = library.call("zs_planes", values, values.width, rows, int(ascends), PROBED_BYTES, planes, counts)
    parts = [
        Plane(planes.view[rows * plane : rows * plane + rows], counts.view[256 * plane : 256 * plane + 256].tolist())
        for plane in range(width)
    ]
    ends = Ascending(values.view[0], values.view[rows - 1]) if ascends else None
    return column(name, rows, parts, ends)
