# SPDX-License-Identifier: Apache-2.0
"""Questions over an archive: what is hot on these nodes, what is hot here and not there, one flame graph of all, the moments; and
who counts their pieces: this machine, or the machines of a Ray cluster.

Whether a difference is one is judged by whom the caller names (`Judge`): the profiler knows stacks, not statistics.
"""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

import zombiescope
from zombiescope.errors import ObservationError, UsageError
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted as how_many
from zombiescope.facts.names import quiet, shown_text
from zombiescope.profiler.archive.catalogue import (
    SHIP_AGAIN,
    Entry,
    Groups,
    Terms,
    Times,
    bounds_of,
    grouped,
    is_one,
    read_catalogue,
)
from zombiescope.profiler.archive.counting import (
    BOXES,
    FUNCTIONS,
    MOMENTS,
    Asked,
    Part,
    Piece,
    Slot,
    by_height,
    count_piece,
)
from zombiescope.profiler.archive.places import Where, place_at
from zombiescope.profiler.stacks.across_nodes import (
    AGAINST,
    WHERE,
    Changed,
    Counted,
    Difference,
    Flame,
    Group,
    Judge,
    Merged,
    Moment,
    Moments,
    Shift,
    Top,
    nesting,
    of_nodes,
    passed_on,
)
from zombiescope.profiler.stacks.flame_graph import NARROWEST, Key

LEAST_MEAN = 0.0005
"""Functions below this share of the time of all nodes are not compared."""
_HELD = 0.5
"""A moment goes on while the core is at it for this much of its height."""
_MOST_MOMENTS = 200
_MOST_NAMED = 8


class Question(NamedTuple):
    place: Where
    where: Terms
    against: Terms
    times: Times
    filters: Asked
    """With what is asked of every sample."""


def ask_top(question: Question, engine: "Engine") -> Top:
    groups, gaps = _groups(question, is_compared=False)
    counted, _, unread = _counted(engine, _asked(question, FUNCTIONS), groups)
    return Top(
        _group(groups.where, counted, WHERE), of_nodes([each for _, each in counted], LEAST_MEAN), (*gaps, *unread)
    )


def ask_flame(question: Question, engine: "Engine") -> Flame:
    groups, gaps = _groups(question, is_compared=False)
    counted, merged, unread = _counted(engine, _asked(question, FUNCTIONS | BOXES), groups)
    graph, frames = merged.graph(NARROWEST, compared=False)
    return Flame(_group(groups.where, counted, WHERE), graph, frames, (*gaps, *unread))


def ask_difference(question: Question, engine: "Engine", judge: Judge) -> Difference:
    groups, gaps = _groups(question, is_compared=True)
    counted, merged, unread = _counted(engine, _asked(question, FUNCTIONS | BOXES), groups)
    both = of_nodes((each._replace(node=f"{side} {each.node}") for side, each in counted), LEAST_MEAN)
    mine = [row for row, node in enumerate(both.nodes) if node.startswith(f"{WHERE} ")]
    others = [row for row, node in enumerate(both.nodes) if node.startswith(f"{AGAINST} ")]
    spent = [
        each
        for each, mean in enumerate(both.own.mean(axis=0).tolist() if len(both.nodes) else [])
        if mean >= LEAST_MEAN
    ]
    columns = [*both.total.T.tolist(), *both.own[:, spent].T.tolist()]
    judged = judge(
        [([column[row] for row in mine], [column[row] for row in others]) for column in columns], len(mine), len(others)
    )
    whole, own = judged.shifts[: len(both.keys)], judged.shifts[len(both.keys) :]
    changed = changes(
        {key: shift for key, shift in zip(both.keys, whole, strict=False) if shift.is_found},
        {both.keys[each]: shift for each, shift in zip(spent, own, strict=False) if shift.is_found},
        merged,
    )
    found = sorted((each for each in changed if each.passed_to is None), key=_by_rise)
    passing = sorted((each for each in changed if each.passed_to is not None), key=_by_rise)
    largest = [] if found else [Changed(key, shift, (), None) for key, shift in zip(both.keys, whole, strict=False)]
    return Difference(
        _group(groups.where, counted, WHERE),
        _group(groups.against, counted, AGAINST),
        len(both.keys),
        tuple(found),
        tuple(passing),
        tuple(sorted(largest, key=lambda each: (-abs(each.shift.mean - each.shift.other), each.key))[:10]),
        judged.too_few,
        judged.unsure,
        *merged.graph(NARROWEST, compared=True),
        (*gaps, *unread),
    )


def changes(whole: dict[Key, Shift], own: dict[Key, Shift], merged: Merged) -> list[Changed]:
    """What differs with all that it calls, or itself. One whose own time differs is told so where the whole does not show it, or
    only passes on what a function below it does."""
    nested = nesting(merged, tuple({**whole, **own}))
    found = [
        Changed(key, shift, nested.callers.get(key, ()), passed_on(nested, key, whole)) for key, shift in whole.items()
    ]
    told = {each.key for each in found if each.passed_to is None}
    return found + [
        Changed(key, shift, nested.callers.get(key, ()), None, is_own=True)
        for key, shift in own.items()
        if key not in told
    ]


def _by_rise(changed: Changed) -> tuple[float, Key]:
    return changed.shift.other - changed.shift.mean, changed.key


def ask_moments(question: Question, engine: "Engine") -> Moments:
    groups, gaps = _groups(question, is_compared=False)
    slots, unread, held = list[Slot](), list[str](), 0
    for part in engine(_asked(question, MOMENTS), cut(groups)):
        slots, held, unread = [*slots, *part.slots], held + part.held, [*unread, *part.unread]
        slots = sorted(slots, key=by_height)[: 4 * _MOST_MOMENTS]
    moments = tuple(joined(slots, question.filters.window))[:_MOST_MOMENTS]
    group = Group(
        len({each.labels.node for each in groups.where}), len(groups.where), sum(e.samples for e in groups.where)
    )
    return Moments(group, moments, held, (*gaps, *_unread(unread)))


def joined(slots: Sequence[Slot], window: int) -> list[Moment]:
    """Windows of one core that follow each other are one moment, as long as none is less than half as high as the highest."""
    left = {(slot.node, slot.core, slot.begin): slot for slot in sorted(slots, key=by_height, reverse=True)}
    found: list[Moment] = []
    for slot in sorted(left.values(), key=by_height):
        if left.pop((slot.node, slot.core, slot.begin), None) is None:
            continue
        ends, samples = [slot.begin, slot.begin], slot.samples
        for side, step in ((0, -window), (1, window)):
            at = slot.begin + step
            while (more := left.get((slot.node, slot.core, at))) is not None and more.samples >= _HELD * slot.samples:
                del left[(slot.node, slot.core, at)]
                ends[side], samples, at = at, samples + more.samples, at + step
        found.append(Moment(slot.node, slot.title, slot.core, ends[0], ends[1] + window, samples, slot.share))
    return found


def _groups(question: Question, *, is_compared: bool) -> tuple[Groups, tuple[Gap, ...]]:
    """The captures that are asked about, and what of the archive is not known."""
    catalogue = read_catalogue(place_at(question.place), question.times)
    for terms in (question.where, question.against):
        if terms and catalogue.entries and not any(is_one(each.labels, terms) for each in catalogue.entries):
            raise _nobody(terms, catalogue.entries)
    found = grouped(catalogue.entries, question.where, question.against)
    if is_compared and question.against and catalogue.entries and not found.against:
        raise UsageError(
            "cannot compare these nodes with themselves",
            "every node that --against names is one of --where, too",
            "leave out --against to compare with all other nodes",
        )
    return found if is_compared else found._replace(against=()), catalogue.gaps


def _nobody(terms: Terms, entries: Sequence[Entry]) -> UsageError:
    """With the values that there are: a misspelt zone is found at once."""
    asked, label = " ".join(f"{label}={','.join(values)}" for label, values in terms), terms[0][0]
    there = sorted({getattr(each.labels, label) for each in entries})
    some = ", ".join(each or "(not said)" for each in there[:_MOST_NAMED])
    more = f" and {len(there) - _MOST_NAMED:,} more" if len(there) > _MOST_NAMED else ""
    why = "the archive has no capture of such a node at that time"
    return UsageError(f"cannot find {shown_text(asked)}", why, f"by {label} there are: {some}{more}")


def _asked(question: Question, wanted: int) -> Asked:
    begin, end = bounds_of(question.times)
    return question.filters._replace(place=question.place, wanted=wanted, begin=begin, end=end)


def _counted(engine: "Engine", asked: Asked, groups: Groups) -> tuple[list[tuple[int, Counted]], Merged, list[Gap]]:
    counted: list[tuple[int, Counted]] = []
    merged, unread = Merged(), list[str]()
    for part in engine(asked, cut(groups)):
        counted += part.counted
        merged.absorb(part.merged)
        unread += part.unread
    return counted, merged, _unread(unread)


def _unread(paths: Sequence[str]) -> list[Gap]:
    if not paths:
        return []
    which = paths[0] if len(paths) == 1 else f"{paths[0]} and others"
    return [Gap("captures", f"{how_many(len(paths), 'capture')} of the archive could not be read: {which}", SHIP_AGAIN)]


def _group(entries: Sequence[Entry], counted: Sequence[tuple[int, Counted]], side: int) -> Group:
    mine = [each for which, each in counted if which == side]
    return Group(len({each.node for each in mine}), len(entries), sum(each.samples for each in mine))


SAMPLES_OF_A_PIECE = 1_000_000
_MOST_HERE = 4
_SECONDS_TO_CONNECT = 10
_ERRORS = 40
"""A level of `logging`, which nothing else here needs."""
_AHEAD = 4
"""Tasks per processor of a cluster that wait or have answered and were not taken."""
Engine = Callable[[Asked, Sequence[Piece]], Iterator[Part]]


def cut(groups: Groups) -> list[Piece]:
    """Captures in pieces of about as many samples; a long one is alone."""
    pieces, taken, samples = list[Piece](), list[tuple[Entry, int]](), 0
    for entry, side in (*((each, WHERE) for each in groups.where), *((each, AGAINST) for each in groups.against)):
        if taken and samples + entry.samples > SAMPLES_OF_A_PIECE:
            pieces.append(tuple(taken))
            taken, samples = [], 0
        taken.append((entry, side))
        samples += entry.samples
    return [*pieces, tuple(taken)] if taken else pieces


def count_here(asked: Asked, pieces: Sequence[Piece]) -> Iterator[Part]:
    at_once = max(1, min(_MOST_HERE, os.cpu_count() or 1))
    with ThreadPoolExecutor(at_once) as pool:
        yield from _in_order(
            pieces, 2 * at_once, lambda piece: pool.submit(count_piece, asked, piece), lambda task: task.result()
        )


def _in_order(
    pieces: Sequence[Piece], ahead: int, begin: Callable[[Piece], Any], end: Callable[[Any], Part]
) -> Iterator[Part]:
    """A few at a time: what waits to be taken stays small."""
    left = iter(pieces)
    waiting = [begin(piece) for piece in islice(left, ahead)]
    while waiting:
        part = end(waiting.pop(0))
        waiting += [begin(piece) for piece in islice(left, 1)]
        yield part


def ray_engine(address: str) -> Engine:
    """Tasks over files: a task reads its captures itself, so the archive must be within reach of every machine of the cluster."""
    try:
        import ray  # noqa: PLC0415 (not of this package: whoever has a cluster has it)
    except ImportError as error:
        raise UsageError(
            "cannot ask a Ray cluster",
            "ray is not installed",
            "pip install ray as the cluster has it, or --engine duckdb",
        ) from error

    def count(asked: Asked, pieces: Sequence[Piece]) -> Iterator[Part]:
        try:
            _knock(address)
            # The package goes along, so that every machine counts by the same program.
            ray.init(address, runtime_env={"py_modules": [zombiescope]}, log_to_driver=False, logging_level=_ERRORS)
        except (RuntimeError, ValueError, OverflowError, OSError) as error:
            raise ObservationError(
                f"cannot reach a Ray cluster at {address}",
                quiet(str(error).splitlines()[0][:200]),
                "name one with --ray HOST:PORT, or ask with --engine duckdb",
            ) from error
        try:
            yield from _ordered(ray, asked, pieces)
        finally:
            ray.shutdown()

    return count


def _knock(address: str) -> None:
    """Ray itself waits for minutes where nobody listens."""
    host, mark, port = address.removeprefix("ray://").rpartition(":")
    if mark and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_CONNECT).close()


def _ordered(ray: Any, asked: Asked, pieces: Sequence[Piece]) -> Iterator[Part]:
    """A task that a lost machine took along is given to another by Ray itself."""
    task = ray.remote(num_cpus=1, max_retries=3, scheduling_strategy="SPREAD")(count_piece)
    ahead = max(8, round(_AHEAD * ray.cluster_resources().get("CPU", 1)))
    try:
        yield from _in_order(pieces, ahead, lambda piece: task.remote(asked, piece), ray.get)
    except ray.exceptions.RayError as error:
        why = quiet((str(error).strip().splitlines() or ["no reason given"])[-1][:200])
        hint = "every machine of the cluster needs numpy, pyarrow and duckdb, and must reach the archive"
        raise ObservationError("cannot count on the Ray cluster", why, hint) from error
