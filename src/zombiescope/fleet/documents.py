# SPDX-License-Identifier: Apache-2.0
"""Without a server: `scan`, `doctor` and `audit` documents of any number of nodes, from a folder, files, or standard input.

Documents are read one after the other, wherever they come from: one per file, one per line, or end to end. Several documents of
one node are put together, the newest last. What is no document of ours is counted and named, never taken for a healthy node.
"""

import csv
import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import filterfalse
from typing import Any, NamedTuple, TypeGuard

from zombiescope.errors import ObservationError, UsageError
from zombiescope.facts.fleet import Fleet, FleetNode
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import quiet, shown_text
from zombiescope.host.safe_open import open_regular

MOST_BYTES, MOST_NUMBER = 1 << 30, 1e15
_GZIP, _SCHEMA = b"\x1f\x8b", "zombiescope."
_TAKEN = ("scan", "doctor", "audit")
_VERSION = "1"
"""Of all three. Another one may mean other things by the same names."""
_SICK = ("warning", "critical")
_MOST_NAMED = 3


class Refused(NamedTuple):
    where: str
    why: str


class Documents(NamedTuple):
    found: list[dict[str, Any]]
    refused: list[Refused]
    recordings: list[str]
    """Files that `record` wrote: to be looked at as hosts."""


def read_documents(source: str) -> Documents:
    """A folder (every file in it, in order), one file, or `-`."""
    documents = Documents([], [], [])
    for where, text in _texts(source):
        if text.startswith(_GZIP):
            documents.recordings.append(where)
            continue
        try:
            documents.found.extend(_split(text.decode("utf-8", "surrogateescape")))
        except ValueError as error:
            documents.refused.append(Refused(where, f"not JSON: {error}"))
    return documents


def _texts(source: str) -> Iterator[tuple[str, bytes]]:
    if source == "-":
        yield "standard input", sys.stdin.buffer.read(MOST_BYTES)
        return
    try:
        is_folder = stat.S_ISDIR(os.stat(source).st_mode)
        names = sorted(os.path.join(source, name) for name in os.listdir(source)) if is_folder else [source]
    except OSError as error:
        raise ObservationError(
            f"cannot read {source}", (error.strerror or str(error)).lower(), "--from DIR, or -"
        ) from error
    left = MOST_BYTES
    for name in filterfalse(os.path.isdir, names):
        text = _read(name, left)
        left -= len(text)
        yield name, text


def _read(name: str, most: int) -> bytes:
    try:
        with os.fdopen(open_regular(os.fsencode(name), follow=True)[0], "rb") as file:
            text = file.read(most + 1)
    except OSError as error:
        raise ObservationError(
            f"cannot read {name}", (error.strerror or str(error)).lower(), "--from DIR, or -"
        ) from error
    if len(text) > most:
        raise ObservationError(
            f"cannot read {name}", f"all together is more than {MOST_BYTES >> 20} MiB", "fewer at a time"
        )
    return text


def _split(text: str) -> Iterator[dict[str, Any]]:
    """Documents end to end, with whatever space between them. Raises ValueError."""
    decoder, place = json.JSONDecoder(), 0
    while True:
        while place < len(text) and text[place] in " \t\r\n":
            place += 1
        if place >= len(text):
            return
        found, place = decoder.raw_decode(text, place)
        for each in found if isinstance(found, list) else [found]:
            if not isinstance(each, dict):
                raise ValueError("a document is an object")  # noqa: TRY004 (the text is wrong, not the call)
            yield from _unwrapped(each)


def _unwrapped(each: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Ansible keeps what a command printed inside a document of its own."""
    inner = each.get("stdout")
    if "schema" in each or not isinstance(inner, str):
        yield each
    else:
        yield from _split(inner)


def read_labels(path: str) -> dict[str, dict[str, str]]:
    """A table (CSV) of nodes: the first column is the node, the others are properties; its first line names them."""
    rows = list(csv.reader(_read(path, MOST_BYTES).decode("utf-8", "surrogateescape").splitlines()))
    if len(rows) < 2 or len(rows[0]) < 2:
        raise UsageError(f"cannot use {path}", "it has no node and no property", "node,zone,image in the first line")
    names = rows[0][1:]
    return {
        row[0]: {name: value for name, value in zip(names, row[1:], strict=False) if value} for row in rows[1:] if row
    }


def fleet_of(
    source: str,
    documents: Documents,
    recorded: Sequence[FleetNode],
    labels: Mapping[str, Mapping[str, str]],
    now: float,
) -> Fleet:
    """One node per host name and cluster, whatever was sent of it; `recorded`: what its recordings told."""
    by_host: dict[tuple[str, str], list[dict[str, Any]]] = {}
    strange = list(documents.refused)
    for each in documents.found:
        kind, _, version = str(each.get("schema", "")).removeprefix(_SCHEMA).partition("/")
        host = each.get("host")
        name = host.get("name") if isinstance(host, dict) else None
        if (
            kind not in _TAKEN
            or version != _VERSION
            or not isinstance(name, str)
            or _time(each.get("taken_at")) is None
        ):
            strange.append(Refused(str(name or "?"), f"a document of {str(each.get('schema'))[:40]!r}"))
            continue
        by_host.setdefault((name, str(_dict(host).get("cluster") or "")), []).append(each)
    gaps = [_refusal(strange)] if strange else []
    named = Counter(name for name, _ in by_host)
    nodes = [
        _node(f"{cluster}/{name}" if cluster and named[name] > 1 else name, sent, labels.get(name, {}))
        for (name, cluster), sent in sorted(by_host.items())
    ]
    nodes += [each._replace(labels={**each.labels, **labels.get(each.name, {})}) for each in recorded]
    if unmet := sorted(set(labels) - set(named) - {each.name for each in recorded}):
        few = ", ".join(map(shown_text, unmet[:_MOST_NAMED]))
        gaps.append(Gap("nodes", f"{len(unmet):,} nodes of the table sent nothing, such as {few}", "ask them too"))
    return Fleet(now, "standard input" if source == "-" else source, tuple(nodes), {}, tuple(gaps))


def _refusal(strange: list[Refused]) -> Gap:
    few = shown_text("; ".join(f"{each.where}: {each.why}" for each in strange[:_MOST_NAMED]))
    return Gap(
        "nodes",
        f"{len(strange):,} of what was sent is not a scan, doctor or audit document of version {_VERSION} ({few})",
        "send --json",
    )


def _node(name: str, sent: list[dict[str, Any]], labels: Mapping[str, str]) -> FleetNode:
    sent.sort(key=lambda each: _time(each.get("taken_at")) or 0.0)
    node = FleetNode(name, {}, gaps=(Gap("zombies", "no scan of it was sent", "zombiescope scan --json"),))
    properties: dict[str, str] = {}
    sick_since: float | None = None
    for each in sent:
        kind = str(each["schema"]).removeprefix(_SCHEMA).partition("/")[0]
        properties.update(_properties(each))
        is_scan = kind == "scan"
        node = _scanned(node, each) if is_scan else node._replace(findings={**node.findings, **_findings(each)})
        is_sick = each.get("severity") in _SICK or any(value in _SICK for value in _findings(each).values())
        sick_since = (sick_since or _time(each.get("taken_at"))) if is_sick else (None if is_scan else sick_since)
    since = sick_since if len(sent) > 1 and sick_since != _time(sent[0].get("taken_at")) else None
    return node._replace(labels={**properties, **labels}, sick_since=since)


def _scanned(node: FleetNode, scan: Mapping[str, Any]) -> FleetNode:
    memcg, growth = _dict(scan.get("memcg")), _dict(scan.get("growth"))
    zombies = _whole(memcg.get("zombies"))
    untold = (
        str(gap.get("reason")) for gap in _rows(scan.get("gaps")) if gap.get("fact") in ("memcg", "memcg.zombies")
    )
    why = next(untold, "its scan does not tell")
    return node._replace(
        zombies=zombies,
        live=_whole(memcg.get("live")),
        counted=_whole(memcg.get("counted")),
        growth_per_hour=_real(growth.get("per_hour")),
        reached_at=_time(growth.get("reached_at")),
        gaps=() if zombies is not None else (Gap("zombies", why, "sudo zombiescope scan on it"),),
    )


def _findings(each: Mapping[str, Any]) -> dict[str, str]:
    rows = _rows(each.get("findings"))
    return {str(row.get("id")): str(row.get("severity")) for row in rows if row.get("verdict") == "present"}


def _properties(each: Mapping[str, Any]) -> dict[str, str]:
    host, memcg = _dict(each.get("host")), _dict(each.get("memcg"))
    found = {"kernel": host.get("kernel"), "hierarchy": memcg.get("hierarchy"), "cluster": host.get("cluster")}
    return {name: str(value) for name, value in found.items() if value}


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _rows(value: object) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _whole(value: object) -> int | None:
    return value if _is_number(value) and isinstance(value, int) else None


def _real(value: object) -> float | None:
    """JSON may hold 1e999, which is no number of anything."""
    return float(value) if _is_number(value) else None


def _time(value: object) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


_WHOLE = ("zombies", "live", "counted")
_REAL = ("growth_per_hour", "saturated_seconds", "resets", "restarts", "sick_since")
_MOST_MEMORY = "1GB"
_UNTOLD = (Gap("zombies", "the table has no number of zombies for it", "scan it"),)


def read_table(path: str, now: float) -> Fleet:
    try:
        import duckdb  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise UsageError(
            f"cannot read {path}", "duckdb is not installed", "pip install 'zombiescope[fleet]'"
        ) from error
    try:
        connection: Any = duckdb.connect(config={"memory_limit": _MOST_MEMORY, "threads": 2})
        found = connection.execute("select * from read_parquet(?)", [path])
        names = [str(column[0]) for column in found.description]
        if "node" not in names:
            raise UsageError(
                f"cannot use {path}", "it has no column named node", "one row per node, its name in `node`"
            )
        nodes = tuple(_node_of_row(dict(zip(names, row, strict=True))) for row in found.fetchall())
    except (duckdb.Error, UnicodeError) as error:
        raise ObservationError(
            f"cannot read {path}", quiet(str(error).splitlines()[0][:200]), "is it a Parquet file?"
        ) from error
    return Fleet(now, path, tuple(sorted(nodes, key=lambda node: node.name)))


def _node_of_row(row: dict[str, Any]) -> FleetNode:
    numbers = {name: round(row[name]) for name in _WHOLE if _is_number(row.get(name))}
    numbers |= {name: float(row[name]) for name in _REAL if _is_number(row.get(name))}
    labels = {name: value for name, value in row.items() if name != "node" and isinstance(value, str) and value}
    return FleetNode(str(row["node"]), labels, gaps=() if "zombies" in numbers else _UNTOLD, **numbers)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MOST_NUMBER
