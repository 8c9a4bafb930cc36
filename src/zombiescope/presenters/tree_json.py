# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.tree/1`: the live cgroups above zombies, with how many lie below each, what they hold and whose they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from zombiescope.analysis.autopsy import Body
from zombiescope.analysis.comparing import Correlation
from zombiescope.analysis.scan import ParentShare
from zombiescope.facts.cgroups import LiveTree, Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Timeline
from zombiescope.facts.names import shown
from zombiescope.presenters.doctor_report import told_correlation
from zombiescope.presenters.document import Json, document
from zombiescope.presenters.zombies_json import held_bytes, main_pin

_MOST_MARKS = 2_000


def render_timeline(timeline: Timeline) -> Json:
    """The last marks of a lane, where there are very many."""
    lanes = []
    for kind in timeline.kinds:
        marks = [[mark.at, mark.detail] for mark in timeline.marks if mark.what == kind]
        watched = [list(each) for each in timeline.watched.get(kind, ())]
        lane = {"id": kind.replace(" ", "-"), "title": kind[:1].upper() + kind[1:], "kind": "marks"}
        lanes.append({**lane, "count": len(marks), "marks": marks[-_MOST_MARKS:], "watched": watched})
    body = {"schema": "zombiescope.events/1", "from": timeline.begin, "to": timeline.end, "lanes": lanes}
    return {**body, "gaps": []}


def render_follows(found: Iterable[Correlation]) -> list[Json]:
    return [
        {
            "cause": each.cause,
            "effect": each.effect,
            "cases": each.cases,
            "with_cause": each.preceded,
            "lift": each.lift,
            "p_value": each.p_value,
            "is_telling": each.is_telling,
            "words": told_correlation(each),
        }
        for each in found
    ]


MOST_NODES = 2_000
_MOST_MAKERS = 12


class _Node:
    def __init__(self) -> None:
        self.live = 0
        self.own: int | None = 0
        self.own_bytes: int | None = 0
        self.pins: Counter[str] = Counter()
        self.makers: dict[str, list[int]] = {}
        self.maker_pins: dict[str, Counter[str]] = {}

    def take(self, body: Body, page: int) -> None:
        held, main = held_bytes(body.zombie, page), main_pin(body)
        pin = main.kind.value if main else ""
        self.own = (self.own or 0) + 1
        self.own_bytes = (self.own_bytes or 0) + held
        self.pins[pin] += 1
        known = self.makers.setdefault(body.maker, [0, 0])
        known[0] += 1
        known[1] += held
        self.maker_pins.setdefault(body.maker, Counter())[pin] += 1


def render_tree(
    snapshot: Snapshot, live: LiveTree | Gap, bodies: Iterable[Body], shares: Iterable[ParentShare], page: int
) -> Json:
    """`shares`: what plain files tell of each parent, where no zombie could be seen one by one."""
    nodes: dict[bytes, _Node] = {b"/": _Node()}
    seen = False
    for each in bodies:
        seen = True
        nodes.setdefault(each.zombie.parent, _Node()).take(each, page)
    if not seen:
        for share in shares:
            node = nodes.setdefault(share.path, _Node())
            node.own, node.own_bytes = share.zombies, share.use.bytes_held if share.use else None
    merged = _merge_smallest(nodes)
    for path in list(nodes):
        while path != b"/":
            path = parent_of(path)
            nodes.setdefault(path, _Node())
    gaps = [live.about("nodes[].live")] if isinstance(live, Gap) else []
    if not isinstance(live, Gap):
        for path in live.paths:
            nodes[_nearest(path, nodes)].live += 1
    body: Json = {"at": snapshot.taken_at, "nodes": _rows(nodes, live), "merged": merged}
    return document("tree/1", snapshot, body, gaps)


def parent_of(path: bytes) -> bytes:
    return path.rpartition(b"/")[0] or b"/"


def _nearest(path: bytes, nodes: Mapping[bytes, _Node]) -> bytes:
    while path not in nodes:
        path = parent_of(path)
    return path


def _merge_smallest(nodes: dict[bytes, _Node]) -> int:
    """Where there are too many parents of zombies to draw, those with the fewest go into the cgroup above them."""
    merged = 0
    while len(nodes) > MOST_NODES:
        smallest = sorted((path for path in nodes if path != b"/"), key=lambda path: nodes[path].own or 0)
        for path in smallest[: len(nodes) - MOST_NODES]:
            gone, above = nodes.pop(path), nodes.setdefault(parent_of(path), _Node())
            above.own = None if gone.own is None or above.own is None else above.own + gone.own
            known = gone.own_bytes is not None and above.own_bytes is not None
            above.own_bytes = above.own_bytes + gone.own_bytes if known else None  # type: ignore[operator]
            above.pins.update(gone.pins)
            for maker, (count, held) in gone.makers.items():
                into = above.makers.setdefault(maker, [0, 0])
                into[0] += count
                into[1] += held
                above.maker_pins.setdefault(maker, Counter()).update(gone.maker_pins[maker])
            merged += 1
    return merged


def _rows(nodes: Mapping[bytes, _Node], live: LiveTree | Gap) -> list[Json]:
    """Parents before children; what lies below a node follows it."""
    order = sorted(nodes, key=lambda path: [] if path == b"/" else path[1:].split(b"/"))
    index = {path: number for number, path in enumerate(order)}
    rows: list[Json] = []
    for path in order:
        node = nodes[path]
        rows.append(
            {
                "name": shown(path if path == b"/" else path.rpartition(b"/")[2]),
                "path": shown(path),
                "parent": -1 if path == b"/" else index[parent_of(path)],
                "live": None if isinstance(live, Gap) else node.live,
                "zombies": node.own,
                "own": node.own,
                "bytes": node.own_bytes,
                "own_bytes": node.own_bytes,
                "pin": node.pins.most_common(1)[0][0] if node.pins else None,
                "makers": _makers(node),
            }
        )
    for row in reversed(rows):
        if row["parent"] >= 0:
            above = rows[row["parent"]]
            for name in ("zombies", "bytes", "live"):
                above[name] = None if above[name] is None or row[name] is None else above[name] + row[name]
            if above["pin"] is None:
                above["pin"] = row["pin"]
    return rows


def _makers(node: _Node) -> list[list[object]]:
    ranked = sorted(node.makers.items(), key=lambda each: (-each[1][0], each[0]))
    rows: list[list[object]] = [
        [maker, count, held, node.maker_pins[maker].most_common(1)[0][0]] for maker, (count, held) in ranked
    ]
    rest = ranked[_MOST_MAKERS:]
    if rest:
        rows[_MOST_MAKERS:] = [["other", sum(each[1][0] for each in rest), sum(each[1][1] for each in rest), ""]]
    return rows
