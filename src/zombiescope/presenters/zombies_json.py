# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.zombies/1`: every zombie as one row of columns, and `zombiescope.story/1`: one zombie's life, told whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from zombiescope.analysis.autopsy import Autopsy, Body, Reconciliation, pages_of
from zombiescope.analysis.freeing import Useless, derive_useless, least_harm_first, needs_of, state_of, ways_out
from zombiescope.analysis.scan import ParentShare
from zombiescope.facts.cgroups import LiveTree, Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.remedies import LEVERS, Remedy
from zombiescope.facts.zombies import Pin, PinKind, Tier, Walk, Zombie
from zombiescope.presenters.autopsy_json import render_holder, render_totals
from zombiescope.presenters.document import Json, document, missing, render_column, render_numbers, rfc3339
from zombiescope.presenters.figures import duration, size, tried_words

PIN_WORDS = {
    PinKind.PAGE_CACHE: "page cache",
    PinKind.WRITEBACK: "writeback",
    PinKind.TMPFS: "shared memory (tmpfs)",
    PinKind.MEMFD: "shared memory (memfd)",
    PinKind.SHARED_ANON: "shared memory (no file)",
    PinKind.SYSV_SHM: "shared memory (System V)",
    PinKind.ANON: "memory of a process",
    PinKind.SWAP: "swap",
    PinKind.SOCKET: "socket",
    PinKind.CHILD: "dead child",
    PinKind.TASK: "unreaped process",
    PinKind.NAMESPACE: "namespace",
    PinKind.UNEVICTABLE: "locked memory",
    PinKind.OTHER: "something else",
}
_KINDS = ("file", "shmem", "anon", "swap", "unevictable")
_STORIES = 256
_BORN: Json = {"fact": "born", "reason": "the tier that saw it does not tell when it was born", "hint": ""}
_DIED: Json = {
    "fact": "died",
    "reason": "the kernel does not keep it: only an agent that watched it die knows",
    "hint": "zombiescope agent",
}


class Seen(NamedTuple):
    """What the tables are made of."""

    snapshot: Snapshot
    walk: Walk
    autopsy: Autopsy
    gaps: tuple[Gap, ...]


def render_zombies(seen: Seen, limit: int = 0) -> Json:
    """`limit`: at most so many rows; 0 for all. The totals always cover all."""
    every, page = seen.autopsy.bodies, seen.walk.page_bytes
    bodies = every[:limit] if limit else every
    why = f"the first {len(bodies):,} of {len(every):,} are in this file; the totals cover all"
    left_out = [Gap("zombies", why, "zombiescope autopsy --limit 0")] if len(bodies) < len(every) else []
    found = seen.autopsy.reconciliation
    body: Json = {
        "at": seen.snapshot.taken_at,
        "tier": seen.walk.tier,
        "count": len(bodies),
        "zombies": seen.autopsy.totals.zombies,
        "page_bytes": page,
        "live": seen.walk.live_count,
        "reconciliation": {name: getattr(found, name) for name in ("walk", "counted_minus_live", "agree", "why")},
        "how": told_how(seen),
        "columns": _columns(bodies, page),
        "words": {
            "pins": {kind.value: words for kind, words in PIN_WORDS.items()},
            "actions": {each.key: each.alone for each in LEVERS},
        },
        "totals": render_totals(seen.autopsy),
    }
    return document("zombies/1", seen.snapshot, body, [*left_out, *seen.walk.gaps, *seen.gaps])


def told_how(seen: Seen) -> str:
    """Which tier saw them, when, and whether the counts agree."""
    found = seen.autopsy.reconciliation
    at = rfc3339(seen.snapshot.taken_at)[11:19] + "Z"
    if seen.walk.tier in (Tier.PAGES, Tier.RESIDUAL):
        return f"plain counts at {at}: the zombies could not be seen one by one"
    return f"autopsy by {seen.walk.tier} at {at}; {_counts(found, seen.walk)}"


def _counts(found: Reconciliation, walk: Walk) -> str:
    if found.agree is None or found.counted_minus_live is None:
        return found.why
    if not found.agree:
        return f"the counts do not agree: {found.why}"
    counted = found.counted_minus_live + walk.live_count
    return f"walk {found.walk:,} = counted {counted:,} minus live {walk.live_count:,}"


def _columns(bodies: tuple[Body, ...], page: int) -> Json:
    zombies = [body.zombie for body in bodies]
    mains = [main_pin(body) for body in bodies]
    names = [None if main is None else main.name for main in mains]
    paths = [_split(zombie.path) for zombie in zombies]
    files = [(None, None) if name is None else _split(name) for name in names]
    pages = {
        f"{kind}_bytes": render_numbers([_bytes(getattr(zombie.pages, kind), page) for zombie in zombies])
        for kind in _KINDS
    }
    freed = _Freed()
    return {
        "id": render_numbers([zombie.id for zombie in zombies]),
        "maker": render_column([body.maker for body in bodies]),
        "parent": render_column([shown(zombie.parent) for zombie in zombies]),
        "folder": render_column([folder for folder, _ in paths]),
        "name": render_column([name for _, name in paths]),
        "born": render_numbers([zombie.born_at for zombie in zombies], 0.1),
        "died": render_numbers([zombie.died_at for zombie in zombies], 0.1),
        "bytes": render_numbers([held_bytes(zombie, page) for zombie in zombies]),
        **pages,
        "refs": render_numbers([zombie.references.total for zombie in zombies]),
        "pin": render_column([None if main is None else main.kind.value for main in mains]),
        "pins": render_column(["+".join(sorted({pin.kind.value for pin in body.zombie.pins})) for body in bodies]),
        "file_folder": render_column([folder for folder, _ in files]),
        "file_name": render_column([name for _, name in files]),
        "fstype": render_column([None if main is None else main.fstype for main in mains]),
        "holder": render_column(
            [next((pin.holder.said for pin in body.zombie.pins if pin.holder is not None), None) for body in bodies]
        ),
        "freed_by": render_column([freed.of(body) for body in bodies]),
    }


def main_pin(body: Body) -> Pin | None:
    """The one with most pages; of those without, the first."""
    return max(body.zombie.pins, key=lambda pin: pin.pages or 0, default=None)


def held_bytes(zombie: Zombie, page: int) -> int:
    """In memory and in swap."""
    return (pages_of(zombie) + (zombie.pages.swap or 0)) * page


def _bytes(pages: int | None, page: int) -> int | None:
    return None if pages is None else pages * page


def _split(path: bytes) -> tuple[str, str]:
    folder, slash, name = path.rpartition(b"/")
    return shown(folder + slash), shown(name)


class _Freed:
    """What frees a zombie, in few words. Of tens of thousands only a handful differ in it."""

    def __init__(self) -> None:
        self._known: dict[tuple[frozenset[Remedy], ...], str] = {}

    def of(self, body: Body) -> str:
        needs = tuple(actions for pin in body.pins for actions in needs_of(pin))
        found = self._known.get(needs)
        if found is None:
            ways = ways_out(needs)
            actions = ways.together or tuple(least_harm_first(dict.fromkeys(ways.alone, 1)))[:1]
            found = self._known[needs] = " + ".join(each.key for each in actions)
        return found


def render_stories(seen: Seen) -> Iterator[tuple[int, list[Json]]]:
    """So many at a time, by id, each with the id of its first: one can be found without unpacking all."""
    bodies = iter(sorted(seen.autopsy.bodies, key=lambda body: body.zombie.id))
    siblings: dict[str, int] = {share.maker: share.zombies for share in seen.autopsy.totals.by_maker}
    how = told_how(seen)
    while some := list(islice(bodies, _STORIES)):
        page = seen.walk.page_bytes
        yield some[0].zombie.id, [_story(body, page, seen.snapshot.taken_at, how, siblings) for body in some]


def _story(body: Body, page: int, now: float, how: str, siblings: dict[str, int]) -> Json:
    zombie = body.zombie
    return {
        "schema": "zombiescope.story/1",
        "id": zombie.id,
        "path": shown(zombie.path),
        "parent": shown(zombie.parent),
        "maker": body.maker,
        "at": now,
        "life": _life(zombie, now, page),
        "refs": {
            "total": zombie.references.total,
            "pages": zombie.references.lru_folios,
            "children": zombie.references.children,
            "swap": zombie.references.swap,
            "rest": zombie.references.rest,
        },
        "pages": zombie.pages._asdict(),
        "bytes": held_bytes(zombie, page),
        "pins": [_pin(pin, page) for pin in zombie.pins],
        "holders": _holders(zombie.pins),
        "freed_by": [
            {
                "action": remedy.action.key,
                "target": remedy.target,
                "words": f"{remedy.action.alone} ({remedy.target})",
                "together": remedy.together,
            }
            for remedy in body.remedies
        ],
        "in_vain": [
            {"what": vain.action, "words": tried_words(vain.action), "why": vain.why} for vain in _useless(zombie)
        ],
        "how": how,
        "command": f"sudo zombiescope plan --zombie {zombie.id}",
        "siblings": max(siblings.get(body.maker, 1) - 1, 0),
        "gaps": [*([_BORN] if zombie.born_at is None else []), *([_DIED] if zombie.died_at is None else [])],
    }


def _useless(zombie: Zombie) -> Iterable[Useless]:
    return derive_useless({(tuple(pin.kind for pin in zombie.pins), state_of(zombie.pins)): 1})


def _life(zombie: Zombie, now: float, page: int) -> list[Json]:
    born, died = zombie.born_at, zombie.died_at
    held = held_bytes(zombie, page)
    by = f"by {size(held)}" if held else "without a page"
    since = died if died is not None else born
    lived = "" if born is None or died is None else f"after {duration(max(died - born, 0.0))}"
    least = "" if died is not None else "at most "
    pinned = by if since is None else f"for {least}{duration(max(now - since, 0.0))}, {by}"
    return [
        {"what": "born", "at": born, "words": "" if born is not None else "not known"},
        {"what": "died", "at": died, "words": lived if died is not None else "only an agent that watched knows when"},
        {"what": "pinned", "at": None, "words": pinned},
        {"what": "released", "at": None, "words": "not yet"},
    ]


def _pin(pin: Pin, page: int) -> Json:
    return {
        "kind": pin.kind,
        "words": PIN_WORDS[pin.kind],
        "path": None if pin.path is None else shown(pin.path),
        "path_in_fs": None if pin.path_in_fs is None else shown(pin.path_in_fs),
        "fstype": pin.fstype,
        "device": pin.device,
        "inode": pin.inode,
        "pages": pin.pages,
        "bytes": None if pin.pages is None else pin.pages * page,
        "sampled": pin.sampled,
        "mapped": pin.mapped,
        "dirty": pin.dirty,
        **render_holder(pin.holder),
    }


def _holders(pins: tuple[Pin, ...]) -> list[str]:
    held = list(dict.fromkeys(pin.holder.said for pin in pins if pin.holder is not None))
    if held or not pins:
        return held
    if any(pin.name is not None for pin in pins):
        return ["nobody: no process was seen to have the file open or mapped"]
    return ["nobody was seen to hold it"]


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
    if not isinstance(live, Gap):
        for path in live.paths:
            nodes[_nearest(path, nodes)].live += 1
    body: Json = {"at": snapshot.taken_at, "nodes": _rows(nodes, live), "merged": merged}
    return document("tree/1", snapshot, body, missing(live, "nodes[].live"))


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
