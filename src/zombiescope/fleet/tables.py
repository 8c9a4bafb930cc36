# SPDX-License-Identifier: Apache-2.0
"""A table of nodes (Parquet) for fleets that are too large for documents: one row per node, read by DuckDB.

Columns with our names are numbers (`zombies`, `live`, `counted`, `growth_per_hour`, `saturated_seconds`, `resets`, `restarts`,
`sick_since`), `node` is the name, and every other column of text is a property.
"""

from __future__ import annotations

from typing import Any

from zombiescope.errors import ObservationError, UsageError
from zombiescope.facts.fleet import Fleet, FleetNode
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import quiet
from zombiescope.fleet.documents import MOST_NUMBER

_WHOLE = ("zombies", "live", "counted")
_REAL = ("growth_per_hour", "saturated_seconds", "resets", "restarts", "sick_since")
_MOST_MEMORY = "1GB"
_UNTOLD = (Gap("zombies", "the table has no number of zombies for it", "scan it"),)


def read_table(path: str, now: float) -> Fleet:
    try:
        import duckdb  # noqa: PLC0415 (an extra)
    except ImportError as error:
        hint = "pip install 'zombiescope[fleet]'"
        raise UsageError(f"cannot read {path}", "duckdb is not installed", hint) from error
    try:
        connection: Any = duckdb.connect(config={"memory_limit": _MOST_MEMORY, "threads": 2})
        found = connection.execute("select * from read_parquet(?)", [path])
        names = [str(column[0]) for column in found.description]
        if "node" not in names:
            raise UsageError(
                f"cannot use {path}", "it has no column named node", "one row per node, its name in `node`"
            )
        nodes = tuple(_node(dict(zip(names, row, strict=True))) for row in found.fetchall())
    except (duckdb.Error, UnicodeError) as error:
        why = quiet(str(error).splitlines()[0][:200])
        raise ObservationError(f"cannot read {path}", why, "is it a Parquet file?") from error
    return Fleet(now, path, tuple(sorted(nodes, key=lambda node: node.name)))


def _node(row: dict[str, Any]) -> FleetNode:
    numbers = {name: round(row[name]) for name in _WHOLE if _is_number(row.get(name))}
    numbers |= {name: float(row[name]) for name in _REAL if _is_number(row.get(name))}
    labels = {name: value for name, value in row.items() if name != "node" and isinstance(value, str) and value}
    gaps = () if "zombies" in numbers else _UNTOLD
    return FleetNode(str(row["node"]), labels, gaps=gaps, **numbers)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MOST_NUMBER
