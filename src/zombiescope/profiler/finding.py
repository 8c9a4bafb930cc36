# SPDX-License-Identifier: Apache-2.0
"""A question to all captures of a folder: their summaries, made now for those that have none, and the best looked into."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from zombiescope.errors import ZombiescopeError
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import quiet
from zombiescope.profiler.asking import open_capture
from zombiescope.profiler.files import store
from zombiescope.profiler.files.beside import read_beside
from zombiescope.profiler.files.ring import look_at
from zombiescope.profiler.files.summing import Summing, peaks_in
from zombiescope.profiler.files.symbol_files import map_file
from zombiescope.profiler.formats.capture_file import read_names
from zombiescope.profiler.formats.summary_document import Json, figure, read_document, reasons_in
from zombiescope.profiler.stacks.about import Reason
from zombiescope.profiler.stacks.capture import BrokenCapture, matches
from zombiescope.profiler.stacks.searching import (
    Hit,
    Known,
    Question,
    Seen,
    best_stretch,
    busiest,
    look_for,
    search,
    settled,
    usual_cores,
    usual_stretches,
)
from zombiescope.profiler.stacks.summary import CauseOf

_LOOKED_INTO = 16


class Found(NamedTuple):
    hits: list[Hit]
    reasons: dict[str, tuple[Reason, ...]]
    """Why a capture was kept, by its name."""
    captures: int
    gaps: tuple[Gap, ...]


def _has_function(path: bytes, glob: str) -> bool:
    try:
        return any(matches(each, glob) for each in read_names(map_file(path)))
    except (OSError, BrokenCapture):
        return False


def find_in_folder(
    folder: bytes, question: Question, cause_of: CauseOf, progress: Callable[[int, int], None] = lambda _, __: None
) -> Found:
    entries = [each for each in store.entries(folder) if each.about is not None]
    known_ones, paths, reasons = list[Known](), dict[str, bytes](), dict[str, tuple[Reason, ...]]()
    unread = 0
    for number, each in enumerate(entries):
        progress(number, len(entries))
        document = read_document(read_beside(each.path) or b"") or _summed_up(each.path, cause_of)
        seen = look_at(each.path)
        if document is None or seen is None:
            unread += 1
            continue
        paths[each.name], reasons[each.name] = each.path, reasons_in(document)
        known_ones.append(known(each.name, seen.span.begin, document))
    hits = search(known_ones, question, lambda name: _has_function(paths[name], question.function))
    gaps = (Gap("captures", f"{unread} of {len(entries)} captures could not be read"),) if unread else ()
    return Found(_looked_into(folder, paths, hits, question, cause_of), reasons, len(entries), gaps)


def _looked_into(
    folder: bytes, paths: dict[str, bytes], hits: list[Hit], question: Question, cause_of: CauseOf
) -> list[Hit]:
    """The best by their summaries, counted sample by sample: what is asked for may be several names, or several things at once."""
    if not question.asked():
        return hits
    looked_at, gone = list[tuple[Hit, Seen]](), 0
    for hit in hits[:_LOOKED_INTO]:
        try:
            opened = open_capture(folder, os.fsdecode(paths[hit.name]))
        except ZombiescopeError:
            gone += 1
            continue  # the ring has removed it meanwhile
        seen = look_for(opened.capture, opened.shape, question, cause_of)
        if seen is not None:
            looked_at.append((hit, seen))
    others = hits[_LOOKED_INTO:]
    without = len(paths) - gone - len(looked_at) - len(others)
    usual = usual_cores([seen for _, seen in looked_at], len(others), without)
    most = [busiest(seen) for _, seen in looked_at]
    elsewhere = [usual_stretches([*most[:place], *most[place + 1 :]]) for place in range(len(most))]
    best = [
        settled(hit, best_stretch(seen, usual, others_of_it))
        for (hit, seen), others_of_it in zip(looked_at, elsewhere, strict=True)
    ]
    return [*sorted(best, key=lambda hit: -hit.score), *others]


def _summed_up(path: bytes, cause_of: CauseOf) -> Json | None:
    try:
        opened = open_capture(os.path.dirname(path), os.fsdecode(path))
    except ZombiescopeError:
        return None
    return read_document(Summing(cause_of).summary_of(opened.capture))


def known(name: str, begin: float | None, document: Json) -> Known:
    """A stranger's summary is taken for what makes sense in it."""
    peak_at: dict[str, dict[str, int]] = {}
    taken = document.get("taken")
    for kind, rows in taken.items() if isinstance(taken, dict) else ():
        for row in reversed(rows) if isinstance(rows, list) else ():  # of one name the highest comes first
            second = figure(row[3]) if isinstance(row, list) and len(row) >= 4 else None
            if second is not None:
                peak_at.setdefault(str(kind), {})[quiet(str(row[0]))] = int(second)
    return Known(
        name,
        begin,
        _number(document.get("seconds")),
        _number(document.get("rate_hz")),
        peaks_in(document),
        peak_at,
        tuple(_moments(document)),
    )


def _number(value: Any) -> float:
    return figure(value) or 0.0


def _moments(document: Json) -> list[dict[str, Any]]:
    rows = document.get("moments")
    return [
        {
            "core": each["core"],
            **{name: _number(each.get(name)) for name in ("begin_seconds", "end_seconds", "score", "kernel_share")},
            **{name: quiet(str(each.get(name, ""))) for name in ("comm", "cgroup")},
            **{name: _texts(each.get(name)) for name in ("stack", "causes")},
        }
        for each in (rows if isinstance(rows, list) else ())
        if isinstance(each, dict) and isinstance(each.get("core"), int)
    ]


def _texts(value: Any) -> list[str]:
    return [quiet(str(each)) for each in value] if isinstance(value, list) else []
