# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.capture-summary/1`, gzipped: what is kept beside a capture. Read without numpy: a page only wants to know why it was
kept."""

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zombiescope.facts.names import quiet
from zombiescope.profiler.stacks.about import Reason

if TYPE_CHECKING:
    from zombiescope.profiler.stacks.summary import Happened, Summary

SCHEMA = "zombiescope.capture-summary/1"
MOST_BYTES = 1 << 20
_MOST_PLAIN_BYTES, _MOST_REASONS, _MOST_FIGURE, _MOST_TEXT = 8 << 20, 50, 1e15, 300
_MOST_AROUND = 86_400.0
Json = dict[str, Any]


def write_summary(summary: "Summary", reasons: Sequence[Reason], changed: Sequence[Json]) -> bytes:
    return _packed(
        {
            "schema": SCHEMA,
            "kept": [reason._asdict() for reason in reasons[:_MOST_REASONS]],
            "changed": list(changed),
            "seconds": round(summary.seconds, 3),
            "samples": summary.samples,
            "rate_hz": summary.rate_hz,
            "cpus": summary.cpus,
            "busy": round(summary.busy, 4),
            "kernel": round(summary.kernel, 4),
            "taken": {kind: [list(one) for one in each] for kind, each in summary.taken.items()},
            "moments": [_moment(one) for one in summary.moments],
        }
    )


def _packed(document: Json) -> bytes:
    return gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0)


def _moment(one: "Happened") -> Json:
    moment = one.found.moment
    return {
        "core": moment.cpu,
        "begin_seconds": round(moment.begin, 3),
        "end_seconds": round(moment.end, 3),
        "kernel_share": round(moment.share, 4),
        "quiet_share": round(moment.quiet_share, 4),
        "score": round(moment.score, 2),
        "comm": one.found.comm,
        "cgroup": one.cgroup,
        "causes": list(one.causes),
        "stack": list(one.found.stack),
        "stack_share": round(one.found.stack_share, 4),
    }


def figure(value: Any) -> float | None:
    """None: it is no number that one can reckon with. JSON has numbers of any length, and Python reads NaN in it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_MOST_FIGURE <= value <= _MOST_FIGURE:
        return None
    return float(value)


def read_document(raw: bytes) -> Json | None:
    """None: it is none. What is inside is checked where it is used."""
    try:
        document = json.loads(zlib.decompressobj(wbits=31).decompress(raw, _MOST_PLAIN_BYTES))
    except (ValueError, RecursionError, zlib.error):
        return None
    return document if isinstance(document, dict) and document.get("schema") == SCHEMA else None


def reasons_in(document: Mapping[str, Any] | None) -> tuple[Reason, ...]:
    kept = (document or {}).get("kept")
    return read_reasons(kept[:_MOST_REASONS] if isinstance(kept, list) else ())


def read_reasons(rows: Iterable[Any]) -> tuple[Reason, ...]:
    """Those that make sense."""
    timed = ((each, figure(each.get("at"))) for each in rows if isinstance(each, dict))
    return tuple(
        Reason(words_of(each, "kind"), at, words_of(each, "words"), _around(each))
        for each, at in timed
        if at is not None
    )


def _around(row: Json) -> float | None:
    seconds = figure(row.get("around"))
    return None if seconds is None else min(max(seconds, 0.0), _MOST_AROUND)


def words_of(row: Json, name: str) -> str:
    return quiet(str(row.get(name, "")))[:_MOST_TEXT]


def with_reasons(raw: bytes, reasons: Sequence[Reason]) -> bytes | None:
    """The same summary with these reasons beside those it has; None: nothing is new, or it is none."""
    document = read_document(raw)
    if document is None:
        return None
    known = reasons_in(document)
    new = [one for one in reasons if one not in known]
    if not new or len(known) >= _MOST_REASONS:
        return None
    document["kept"] = [one._asdict() for one in (*known, *new)][:_MOST_REASONS]
    return _packed(document)
