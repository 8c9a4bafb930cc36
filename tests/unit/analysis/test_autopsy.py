# SPDX-License-Identifier: Apache-2.0
"""Totals cover every zombie, children stand for their pins, and a mismatch is said."""

from __future__ import annotations

from zombiescope.analysis.autopsy import derive_autopsy, instances_of
from zombiescope.analysis.freeing import Aimed
from zombiescope.analysis.scan import Population
from zombiescope.facts.cgroups import CountSource, MemoryUse, Residuals
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.zombies import HeldBy, Pages, Pin, PinKind, References, Tier, Walk, Zombie


def tmpfs(path: bytes = b"/dev/shm/f") -> Pin:
    return Pin(PinKind.TMPFS, path, path, "tmpfs", "0:5", 3, 1, sampled=False)


def zombie(
    number: int, path: bytes, *pins: Pin, children: int = 0, parent_id: int | None = None, level: int = 2
) -> Zombie:
    pages = sum(pin.pages or 0 for pin in pins)
    references = References(pages + children, pages, children, 0, 0)
    held = Pages(0, pages, 0, 0, 0)
    return Zombie(number, number, path, level, b"/a", None, None, references, held, pins, None, None, parent_id)


def walk(*zombies: Zombie) -> Walk:
    return Walk(Tier.BPF, zombies, 3)


def residuals(shmem_pages: int) -> Residuals:
    return Residuals({b"/a": MemoryUse(0, shmem_pages * 4096, 0, 0, 0)}, frozenset())


def population(zombies: int) -> Population:
    return Population(3 + zombies, 3, CountSource.PROC_CGROUPS)


def test_totals_and_agreement() -> None:
    two = walk(zombie(1, b"/a/x.service", tmpfs()), zombie(2, b"/a/y1", tmpfs(), tmpfs(b"/dev/shm/g")))
    found = derive_autopsy(two, population(2), residuals(3))
    assert (found.totals.zombies, found.totals.pages, dict(found.totals.by_pin)) == (2, 3, {PinKind.TMPFS: 2})
    assert {share.maker: share.zombies for share in found.totals.by_maker} == {"unit:x.service": 1, "path:/a/y*": 1}
    assert sum(share.share for share in found.totals.by_maker) == 1
    assert dict(found.totals.freed_by) == {Remedy.DELETE_FILE: 2}
    check = found.reconciliation
    assert (check.walk, check.counted_minus_live, check.walk_pages, check.residual_pages, check.agree) == (
        2,
        2,
        3,
        3,
        True,
    )
    assert check.by_parent[0] == (b"/a", 2, 3, 3)


def test_the_totals_do_not_free_by_deletion_what_a_program_still_uses() -> None:
    used = tmpfs()._replace(holder=HeldBy(7))
    found = derive_autopsy(walk(zombie(1, b"/a/x", used), zombie(2, b"/a/y", tmpfs())), None, None).totals
    assert dict(found.freed_by) == {Remedy.DELETE_FILE: 1}
    assert dict(found.freed_together) == {(Remedy.RESTART_PROCESS, Remedy.DELETE_FILE): 1}


def test_a_mismatch_is_never_hidden() -> None:
    found = derive_autopsy(walk(zombie(1, b"/a/x", tmpfs())), population(5), residuals(9)).reconciliation
    assert found.agree is False
    assert "the census 5" in found.why
    assert "memory.stat 9" in found.why


def test_nothing_to_compare_with_is_neither_agreement_nor_doubt() -> None:
    assert derive_autopsy(walk(), None, None).reconciliation.agree is None


def test_a_parent_of_dead_children_is_freed_by_what_frees_them() -> None:
    child = Pin(PinKind.CHILD, None, None, None, None, None, None, sampled=False)
    grandparent = zombie(1, b"/a/p", child, children=1, level=2)
    parent = zombie(2, b"/a/p/q", child, children=1, parent_id=1, level=3)
    leaf = zombie(3, b"/a/p/q/r", tmpfs(), parent_id=2, level=4)
    found = derive_autopsy(walk(grandparent, parent, leaf), None, None)
    assert [body.remedies for body in found.bodies] == [(Aimed(Remedy.DELETE_FILE, "/dev/shm/f"),)] * 3
    assert found.totals.by_pin == {PinKind.CHILD: 2, PinKind.TMPFS: 1}


def test_a_child_that_was_not_seen_is_waited_for() -> None:
    child = Pin(PinKind.CHILD, None, None, None, None, None, None, sampled=False)
    (body,) = derive_autopsy(walk(zombie(1, b"/a/p", child, children=1)), None, None).bodies
    assert [remedy.action for remedy in body.remedies] == [Remedy.WAIT]


def test_pages_of_v2_parents_that_cannot_be_split_are_not_compared() -> None:
    unsplit = Residuals({}, frozenset({b"/a"}))
    found = derive_autopsy(walk(zombie(1, b"/a/x", tmpfs())), population(1), unsplit).reconciliation
    assert (found.residual_pages, found.agree, found.by_parent[0].residual_pages) == (None, True, None)


def test_services_numbered_for_each_run_are_one_maker_with_their_instances_below_it() -> None:
    jobs = [zombie(number, b"/system.slice/job-%d.service" % number, tmpfs()) for number in range(1, 9)]
    other = zombie(90, b"/system.slice/postgresql-14.service", tmpfs())
    found = derive_autopsy(walk(*jobs, other), population(9), residuals(27))
    made = {share.maker: share.zombies for share in found.totals.by_maker}
    assert made == {"unit:job-*.service": 8, "unit:postgresql-14.service": 1}
    assert ("job-3.service", 1) in instances_of(found.bodies, "unit:job-*.service")
