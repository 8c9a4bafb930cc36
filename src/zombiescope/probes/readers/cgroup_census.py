# SPDX-License-Identifier: Apache-2.0
"""How many memory cgroups the kernel counts, how many have a directory and, on v2, below which live parent the others lie; and
how many live leaves are without a process: a few are ordinary, thousands are directories that somebody never removed.

v1: the row in /proc/cgroups, read before and after the directories are counted, the lower of the two. v2: cgroup.stat, where
`nr_dying_subsys_memory` (kernels from 6.12) is preferred to `nr_dying_descendants`, which also counts cgroups held by others. Two
looks a second apart: an ordinary death is over by then. Leaves are only looked into where there are many, and then in an even
sample. v1: cgroup.procs; v2: cgroup.events, which needs no list.
"""

import errno
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from zombiescope.facts.cgroups import Census, CountSource, EmptyDirectories, Hierarchy, HierarchyVersion, LiveTree, Look
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.access import Host
from zombiescope.probes.cgroups import GONE, children_of, read_controller_row
from zombiescope.probes.kernel_text import flat_keyed, refusal

SECONDS_BETWEEN_LOOKS = 1.0
_PARENTS = "parents[].zombies"


class ToldLook(NamedTuple):
    look: Look
    source: CountSource


class _Seen(NamedTuple):
    look: Look
    source: CountSource
    tree: LiveTree | None
    parents: dict[bytes, int] | Gap


def read_census(host: Host, hierarchy: Hierarchy) -> Census | Gap:
    """Two looks; one where the first saw no zombie, for then the lower of the two is known."""
    if hierarchy.partial_view:
        return Gap(
            "memcg.counted", hierarchy.partial_view, "run on the host itself, or give the host's root with --root"
        )
    if isinstance(first := _look(host, hierarchy), Gap):
        return first
    if first.look.zombies == 0:
        return _census([first])
    host.wait(SECONDS_BETWEEN_LOOKS)
    second = _look(host, hierarchy, first)
    return second if isinstance(second, Gap) else _census([first, second])


def read_one_look(host: Host, hierarchy: Hierarchy) -> Look | Gap:
    """A single look, for comparing with something that was counted at this very moment: ordinary deaths are in it."""
    told = read_told_look(host, hierarchy)
    return told if isinstance(told, Gap) else told.look


def read_told_look(host: Host, hierarchy: Hierarchy) -> ToldLook | Gap:
    """The same, and where its numbers came from."""
    seen = _counted_look(host, hierarchy) if hierarchy.version is HierarchyVersion.V1 else _v2_totals(host, hierarchy)
    return seen if isinstance(seen, Gap) else ToldLook(seen.look, seen.source)


def read_live_tree(host: Host, hierarchy: Hierarchy) -> LiveTree | Gap:
    try:
        walk = host.directories(hierarchy.mount_point)
    except OSError as error:
        return refusal("memcg.live", hierarchy.mount_point, error)
    if walk.unreadable:
        path, code = walk.unreadable[0]
        return refusal(
            "memcg.live", hierarchy.place(path), OSError(code, f"Cannot be listed ({errno.errorcode.get(code, code)})")
        )
    return LiveTree(walk.paths, walk.leaves)


def _census(seen: list[_Seen]) -> Census:
    last = seen[-1]
    looks = tuple(entry.look for entry in seen)
    unknown = [entry.parents for entry in seen if isinstance(entry.parents, Gap)]
    if unknown:
        return Census(last.source, looks, last.tree, None, (unknown[0],))
    counts = [entry.parents for entry in seen if not isinstance(entry.parents, Gap)]
    lowest = {path: least for path in counts[0] if (least := min(count.get(path, 0) for count in counts))}
    return Census(last.source, looks, last.tree, lowest)


def _look(host: Host, hierarchy: Hierarchy, before: _Seen | None = None) -> _Seen | Gap:
    if hierarchy.version is HierarchyVersion.V1:
        return _counted_look(host, hierarchy, before.tree if before else None)
    if isinstance(seen := _v2_totals(host, hierarchy), Gap):
        fallback = _counted_look(host, hierarchy)
        return seen if isinstance(fallback, Gap) else fallback
    return seen._replace(parents=_v2_parents(host, hierarchy, seen.source, before)) if seen.look.zombies else seen


def _counted_look(host: Host, hierarchy: Hierarchy, known: LiveTree | None = None) -> _Seen | Gap:
    """The kernel's number against the directories: v1, and v2 where cgroup.stat does not say."""
    if isinstance(before := read_controller_row(host), Gap):
        return before
    tree = known if known and host.is_live and _is_as_large(host, hierarchy, known) else read_live_tree(host, hierarchy)
    if isinstance(tree, Gap):
        return tree
    if isinstance(after := read_controller_row(host), Gap):
        return after
    live = len(tree.paths)
    # A directory is certainly counted: fewer counted than directories only means births while we walked.
    look = Look(max(min(before.cgroups, after.cgroups), live), live)
    which = "on cgroup v1" if hierarchy.version is HierarchyVersion.V1 else "where cgroup.stat does not say"
    return _Seen(
        look,
        CountSource.PROC_CGROUPS,
        tree,
        Gap(_PARENTS, f"plain files give only the total {which}", "sudo zombiescope scan --exact"),
    )


def _is_as_large(host: Host, hierarchy: Hierarchy, tree: LiveTree) -> bool:
    """The directories that had children still have as many: then a large tree need not be walked again."""
    inner = set(tree.paths).difference(tree.leaves)
    try:
        return 1 + sum(len(host.subdirectories(hierarchy.place(path))) for path in inner) == len(tree.paths)
    except OSError:
        return False


def _v2_totals(host: Host, hierarchy: Hierarchy) -> _Seen | Gap:
    path = hierarchy.place(b"/", b"cgroup.stat")
    try:
        counted = _v2_counts(flat_keyed(host.read(path)))
    except OSError as error:
        return refusal("memcg.counted", path, error)
    return (
        _Seen(*counted, None, {}) if counted else Gap("memcg.counted", f"{shown(path)} has no count of dying cgroups")
    )


def _v2_parents(host: Host, hierarchy: Hierarchy, source: CountSource, before: _Seen | None) -> dict[bytes, int] | Gap:
    """The total stands also where a directory below cannot be read."""
    dying = _DyingCounts(host, hierarchy, source)
    try:
        if before is None or isinstance(before.parents, Gap):
            return dying.attribute()
        return dying.again(before.parents)
    except OSError as error:
        return refusal(_PARENTS, error.filename or hierarchy.mount_point, error)


def _v2_counts(values: dict[bytes, int]) -> tuple[Look, CountSource] | None:
    live_all, dying_all = values.get(b"nr_descendants"), values.get(b"nr_dying_descendants")
    dying_memory = values.get(b"nr_dying_subsys_memory")
    # nr_subsys_memory counts "at and beneath", so the root is in it; nr_descendants leaves the root out.
    live = values.get(b"nr_subsys_memory", None if live_all is None else live_all + 1)
    if live is not None and dying_memory is not None:
        return Look(live + dying_memory, live), CountSource.CGROUP_STAT_SUBSYS
    if live_all is not None and dying_all is not None:
        return Look(live_all + 1 + dying_all, live_all + 1), CountSource.CGROUP_STAT_DESCENDANTS
    return None


class _DyingCounts:
    """Zombies by nearest live ancestor: each directory's dying count less those of its live children."""

    def __init__(self, host: Host, hierarchy: Hierarchy, source: CountSource) -> None:
        self._host, self._hierarchy = host, hierarchy
        self._key = b"nr_dying_subsys_memory" if source is CountSource.CGROUP_STAT_SUBSYS else b"nr_dying_descendants"

    def attribute(self) -> dict[bytes, int]:
        """Only directories with zombies at or below them are entered, so a healthy host costs two reads."""
        parents: dict[bytes, int] = {}
        pending = [(b"/", self._at_and_below(b"/"))]
        while pending:
            path, dying = pending.pop()
            below = (
                [(child, self._at_and_below(child)) for child in children_of(self._host, self._hierarchy, path)]
                if dying
                else []
            )
            if (own := dying - sum(count for _, count in below)) > 0:
                parents[path] = own
            pending.extend((child, count) for child, count in below if count)
        return parents

    def again(self, before: dict[bytes, int]) -> dict[bytes, int]:
        """A second look at the parents that had zombies. A child whose first zombie came since is counted with its parent,
        which cannot raise the lower of the two looks."""
        dying = {path: self._at_and_below(path) for path in _with_ancestors(before)}
        below: dict[bytes, int] = defaultdict(int)
        for path, count in dying.items():
            if path != b"/":
                below[_parent(path)] += count
        return {path: max(dying[path] - below[path], 0) for path in before}

    def _at_and_below(self, path: bytes) -> int:
        file = self._hierarchy.place(path, b"cgroup.stat")
        try:
            values = flat_keyed(self._host.read(file))
        except OSError as error:
            if error.errno in GONE:  # it died meanwhile: its zombies are its parent's now
                return 0
            raise
        if self._key not in values:
            raise OSError(errno.EBADMSG, f"Has no {shown(self._key)}", file)
        return values[self._key]


def _with_ancestors(paths: dict[bytes, int]) -> set[bytes]:
    wanted = {b"/"}
    for path in paths:
        while path not in wanted:
            wanted.add(path)
            path = _parent(path)
    return wanted


def _parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0] or b"/"


MOST_SEEN, EXAMPLES = 400, 3
_FACT = "visible_leak.empty_directories"


def read_empty_directories(host: Host, hierarchy: Hierarchy, leaves: Sequence[bytes]) -> EmptyDirectories | Gap:
    seen: dict[bytes, bool] = {}
    for path in leaves[:: max(-(-len(leaves) // MOST_SEEN), 1)]:
        try:
            seen[path] = _is_empty(host, hierarchy, path)
        except OSError as error:
            is_gone = error.errno == errno.ENODEV or (error.errno == errno.ENOENT and host.is_live)
            if not is_gone:
                return refusal(_FACT, error.filename or hierarchy.place(path), error)
    if leaves and not seen:
        return Gap(_FACT, "every cgroup that was looked at went away meanwhile", "look again")
    empty = [path for path, is_empty in seen.items() if is_empty]
    examples = empty[:: max(len(empty) // EXAMPLES, 1)][:EXAMPLES]
    return EmptyDirectories(len(leaves), len(seen), len(empty), tuple(examples))


def _is_empty(host: Host, hierarchy: Hierarchy, path: bytes) -> bool:
    if hierarchy.version is HierarchyVersion.V2 and path != b"/":
        populated = flat_keyed(host.read(hierarchy.place(path, b"cgroup.events"))).get(b"populated")
        if populated is not None:
            return populated == 0
    return not host.read(hierarchy.place(path, b"cgroup.procs")).strip()
