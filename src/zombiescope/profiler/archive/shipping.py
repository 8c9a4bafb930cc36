# SPDX-License-Identifier: Apache-2.0
"""One capture into an archive: stacks, samples, then the row that makes both count. Done again, it changes nothing."""

from __future__ import annotations

from zombiescope.errors import UsageError
from zombiescope.profiler.archive.places import Place, begin_archive, reaching
from zombiescope.profiler.archive.schema import TABLES, Labels, named, pack
from zombiescope.profiler.stacks.capture import Capture
from zombiescope.profiler.stacks.fleet_answers import Shipped


def ship(place: Place, capture: Capture, title: str, labels: Labels, *, replace: bool = False) -> Shipped:
    what = f"cannot ship {title} to {place.name}"
    try:
        name, date = named(capture, labels)
    except UsageError as error:
        raise UsageError(f"cannot ship {title}", error.why, error.hint) from error
    full = f"make room on {place.room}, and ship again: what is complete there stays"
    with reaching(what, "is the address right, and may you write there? what is complete there stays", full):
        begin_archive(place)
        if not replace and place.has(f"captures/date={date}/{name}.parquet"):
            return Shipped(title, name, len(capture), None)
        packed = pack(capture, title, labels)
        for table in TABLES:
            place.put(packed.path(table), packed.tables[table])
    return Shipped(title, name, len(capture), sum(map(len, packed.tables.values())))
