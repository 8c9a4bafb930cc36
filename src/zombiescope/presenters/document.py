# SPDX-License-Identifier: Apache-2.0
"""What every JSON document has: schema, time, host and gaps."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from zombiescope.facts.cgroups import Hierarchy, Identity, Shape
from zombiescope.facts.gap import Gap

Value = str | int | float | None
_WORTH_A_DICTIONARY = 4
"""Each word must stand for so many rows, on the average."""


def render_column(values: Sequence[Value]) -> dict[str, Any]:
    words = dict.fromkeys(values)
    if len(words) <= 1:
        return {"constant": next(iter(words), None)}
    if len(words) * _WORTH_A_DICTIONARY <= len(values):
        codes = {word: number for number, word in enumerate(words)}
        return {"dictionary": list(words), "codes": [codes[value] for value in values]}
    return {"values": list(values)}


def render_numbers(values: Sequence[float | None], scale: float = 1) -> dict[str, Any]:
    """Whole steps of `scale`, as differences; what is not known stays unknown."""
    steps = [None if value is None else round(value / scale) for value in values]
    if len(set(steps)) <= 1:
        only = steps[0] if steps else None
        return {"constant": None if only is None else only * scale}
    found: list[int | None] = []
    before = 0
    for step in steps:
        if step is None:
            found.append(None)
        else:
            found.append(step - before)
            before = step
    return {"deltas": found} if scale == 1 else {"deltas": found, "scale": scale}


Json = dict[str, Any]
_FIRST, _LAST = -62_135_596_800.0, 253_402_300_799.0


class Dated(Protocol):
    """Whatever was looked at: when, and on which machine."""

    @property
    def taken_at(self) -> float: ...
    @property
    def identity(self) -> Identity: ...


def rfc3339(seconds: float) -> str:
    """A clock beyond the calendar (a folder's time may be anything) is held at its edge."""
    moment = datetime.fromtimestamp(min(max(seconds, _FIRST), _LAST), UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def document(schema: str, seen: Dated, body: Json, gaps: Iterable[Gap]) -> Json:
    identity = seen.identity
    return {
        "schema": f"zombiescope.{schema}",
        "taken_at": rfc3339(seen.taken_at),
        "host": render_host(identity),
        **body,
        "gaps": render_gaps(one_per_field([*identity.gaps, *gaps])),
    }


def render_gaps(gaps: Iterable[Gap]) -> list[Json]:
    return [gap._asdict() for gap in gaps]


def render_host(identity: Identity) -> Json:
    """`cluster` only where it is known: most hosts are in none."""
    host: Json = {
        "name": identity.name,
        "kernel": identity.kernel,
        "boot_id": identity.boot_id,
        "uptime_seconds": identity.uptime_seconds,
    }
    return {**host, "cluster": identity.cluster} if identity.cluster else host


def render_page_host(identity: Identity, hierarchy: Hierarchy | Gap, shape: Shape) -> Json:
    """The host in the pulse of a page: with what its title says."""
    version = hierarchy.version if isinstance(hierarchy, Hierarchy) else None
    return {**render_host(identity), "hierarchy": version, "cpus": shape.possible_cpus}


def csv_cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text


def one_per_field(gaps: Iterable[Gap]) -> list[Gap]:
    """The first gap of each field stands for it."""
    fields: dict[str, Gap] = {}
    for gap in gaps:
        fields.setdefault(gap.fact, gap)
    return list(fields.values())


def missing(fact: object, *fields: str) -> list[Gap]:
    """A gap for each field that would be there, had the fact been."""
    return [fact.about(field) for field in fields] if isinstance(fact, Gap) else []


def null_gaps(body: Json, told: Iterable[Gap], reasons: Mapping[str, str], otherwise: str) -> list[Gap]:
    """A gap for each null that has none yet."""
    known = {gap.fact for gap in told}
    return [Gap(field, reasons.get(field, otherwise)) for field in null_fields(body) if field not in known]


def null_fields(value: object, path: str = "") -> list[str]:
    """The JSON path of every null, each once: `parents[].zombies`."""
    found: dict[str, None] = {}
    if value is None:
        found[path] = None
    elif isinstance(value, dict):
        for key, inner in value.items():
            found.update(dict.fromkeys(null_fields(inner, f"{path}.{key}" if path else str(key))))
    elif isinstance(value, list):
        for inner in value:
            found.update(dict.fromkeys(null_fields(inner, f"{path}[]")))
    return list(found)
