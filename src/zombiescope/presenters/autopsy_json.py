# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.autopsy/1`: every zombie with its pins and what frees it, totals, and whether the counts agree."""

from collections.abc import Iterable

from zombiescope.analysis.autopsy import Autopsy, Body, MakerShare, Reconciliation, instances_of
from zombiescope.analysis.freeing import Aimed, cost_of, remedies_on
from zombiescope.analysis.maker import maker_of
from zombiescope.facts.cgroups import Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.page_pins import NOTHING_BESIDE, Beside, DeletedTasks, PageFreePins, PinnedFile, SocketCandidates
from zombiescope.facts.zombies import HeldBy, Pin, Tier, Walk
from zombiescope.presenters.document import Json, csv_cell, document, null_gaps, rfc3339

COLUMNS = (
    "id", "path", "parent", "maker", "born_at", "refs", "file_pages", "shmem_pages", "anon_pages", "unevictable_pages",
    "swap_pages", "pins", "files", "freed_by",
)  # fmt: skip


def render_autopsy_csv(bodies: Iterable[Body]) -> str:
    rows = (["" if value is None else csv_cell(str(value)) for value in _row(body)] for body in bodies)
    return "\r\n".join([",".join(COLUMNS), *map(",".join, rows)])


def _row(body: Body) -> list[object]:
    zombie = body.zombie
    names = [pin.name for pin in zombie.pins]
    return [
        zombie.id,
        shown(zombie.path),
        shown(zombie.parent),
        body.maker,
        None if zombie.born_at is None else rfc3339(zombie.born_at),
        zombie.references.total,
        *zombie.pages,
        " ".join(pin.kind for pin in zombie.pins),
        " ".join(shown(name) for name in names if name is not None),
        " | ".join(f"{remedy.action.key} {remedy.target}" for remedy in body.remedies),
    ]


def render_pin(pin: Pin) -> Json:
    return {
        "kind": pin.kind,
        "path": None if pin.path is None else shown(pin.path),
        "path_in_fs": None if pin.path_in_fs is None else shown(pin.path_in_fs),
        "fstype": pin.fstype,
        "device": pin.device,
        "inode": pin.inode,
        "pages": pin.pages or 0,
        "sampled": pin.sampled,
        "mapped": pin.mapped,
        "dirty": pin.dirty,
        **render_holder(pin.holder),
    }


def render_holder(holder: HeldBy | None) -> Json:
    """In words, and as fields for a program."""
    if holder is None:
        return {"holder": None}
    fields = {
        "pid": holder.process,
        "command": shown(holder.name) or None,
        "start_ticks": holder.start_ticks,
        "maker": None if holder.cgroup is None else maker_of(holder.cgroup),
        "reaped_by": holder.reaper,
        "socket": holder.socket,
    }
    return {"holder": holder.said, "held_by": {name: value for name, value in fields.items() if value is not None}}


def render_remedy(remedy: Aimed) -> Json:
    entry: Json = {"action": remedy.action.key, "target": remedy.target}
    return {**entry, "together": True} if remedy.together else entry


_NO_FILE = "a pin of this kind has no file"
_REASONS = {
    "zombies[].pins[].path": "the file has no name that can be opened in this mount namespace",
    "zombies[].pins[].path_in_fs": _NO_FILE,
    "zombies[].pins[].fstype": _NO_FILE,
    "zombies[].pins[].device": _NO_FILE,
    "zombies[].pins[].inode": _NO_FILE,
    "zombies[].pins[].holder": "no process or mount was found that holds it",
    "zombies[].pins[].mapped": "this pin has no pages, or the tier does not see who maps them",
    "zombies[].pins[].dirty": "this pin has no pages, or the tier does not see which are dirty",
}
_REASONS_OF_FILES = {field.replace("zombies[].pins[]", "pinned_files[]"): why for field, why in _REASONS.items()}
_PARENTS = 50
_INSTANCES = 20
_UNTOLD = "the tier that answered does not tell"


def render_autopsy(
    snapshot: Snapshot, walk: Walk, autopsy: Autopsy, gaps: Iterable[Gap], limit: int, beside: Beside = NOTHING_BESIDE
) -> Json:
    shown_bodies = autopsy.bodies[:limit] if limit else autopsy.bodies
    body: Json = {
        "tier": walk.tier,
        "zombies": [render_body(entry) for entry in shown_bodies],
        "totals": render_totals(autopsy),
        "reconciliation": _reconciliation(autopsy.reconciliation),
        "walk": {
            "live": walk.live_count,
            "chunks": walk.chunks,
            "kernel_seconds": _seconds(walk.kernel_nanoseconds),
            "longest_run_seconds": _seconds(walk.longest_run_nanoseconds),
        },
    }
    if walk.tier is Tier.PAGES or beside.pins is not None:
        body |= render_beside(beside, limit, with_files=walk.tier is Tier.PAGES)
    known = [*walk.gaps, *gaps]
    return document(
        "autopsy/1", snapshot, body, [*known, *null_gaps(body, known, _REASONS | _REASONS_OF_FILES, _UNTOLD)]
    )


def render_body(entry: Body) -> Json:
    zombie = entry.zombie
    return {
        "id": zombie.id,
        "path": shown(zombie.path),
        "parent": shown(zombie.parent),
        "maker": entry.maker,
        "level": zombie.level,
        "born_at": None if zombie.born_at is None else rfc3339(zombie.born_at),
        "died_at": None if zombie.died_at is None else rfc3339(zombie.died_at),
        "refs": zombie.references.total,
        "references": {
            "lru_folios": zombie.references.lru_folios,
            "children": zombie.references.children,
            "swap": zombie.references.swap,
            "rest": zombie.references.rest,
        },
        "pages": zombie.pages._asdict(),
        "peak_bytes": zombie.peak_bytes,
        "oom_kills": zombie.oom_kills,
        "pins": [render_pin(pin) for pin in zombie.pins],
        "freed_by": [render_remedy(remedy) for remedy in entry.remedies],
    }


def render_totals(autopsy: Autopsy) -> Json:
    totals = autopsy.totals
    return {
        "zombies": totals.zombies,
        "pages": totals.pages,
        "by_pin": dict(totals.by_pin),
        "by_maker": [_maker(share, autopsy) for share in totals.by_maker],
        "freed_by": [
            {"action": action.key, "zombies": zombies, "cost": action.cost}
            for action, zombies in totals.freed_by.items()
        ],
        "freed_together": [
            {"actions": [each.key for each in actions], "zombies": zombies, "cost": cost_of(actions)}
            for actions, zombies in totals.freed_together.items()
        ],
        "in_vain": [vain._asdict() for vain in totals.useless],
    }


def _maker(share: MakerShare, autopsy: Autopsy) -> Json:
    """With the units that it stands for, where it is a template or a pattern."""
    entry: Json = {"maker": share.maker, "zombies": share.zombies, "share": round(share.share, 6)}
    instances = instances_of(autopsy.bodies, share.maker)
    if instances:
        entry["instances"] = [{"name": name, "zombies": zombies} for name, zombies in instances[:_INSTANCES]]
        entry["instances_in_all"] = len(instances)
    if share.pods:
        entry["pods"] = [
            {"uid": pod.uid, "name": pod.name, "zombies": pod.zombies, "containers": dict(pod.containers)}
            for pod in share.pods[:_INSTANCES]
        ]
        entry["pods_in_all"] = len(share.pods)
        entry["is_guess"] = share.is_guess
    return entry


def _reconciliation(found: Reconciliation) -> Json:
    parents = [{**check._asdict(), "path": shown(check.path)} for check in found.by_parent[:_PARENTS]]
    return {**found._asdict(), "by_parent": parents}


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e9


def render_beside(beside: Beside, limit: int, *, with_files: bool) -> Json:
    body: Json = {}
    if with_files:
        body["pinned_files"] = [_pinned_file(file) for file in (beside.files[:limit] if limit else beside.files)]
    if beside.pins is not None:
        body["page_free_pins"] = _page_free(beside.pins)
    return body


def _pinned_file(file: PinnedFile) -> Json:
    return {
        "parent": shown(file.parent),
        **render_pin(file.pin),
        "proof": file.proof,
        "holders": list(file.holders),
        "freed_by": [render_remedy(remedy) for remedy in remedies_on(file.pin, file.parent)],
    }


def _page_free(pins: PageFreePins) -> Json:
    """Candidates where no walk could join them to their zombies; a task with a former path is proof."""
    tasks = pins.tasks.tasks if isinstance(pins.tasks, DeletedTasks) else ()
    sockets = pins.sockets.dead if isinstance(pins.sockets, SocketCandidates) else ()
    return {
        "tasks": [
            {"path": shown(task.cgroup or b"?"), "process": task.process, "state": task.state, "parent": task.parent}
            for task in tasks
        ],
        "sockets": [{"id": one.cgroup, "protocol": one.protocol, "inode": one.inode} for one in sockets],
    }
