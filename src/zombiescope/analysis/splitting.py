# SPDX-License-Identifier: Apache-2.0
"""Shared and private memory of zombies whose lists were too long to follow, told apart by what memory.stat counts below their
parent. Only where that leaves no doubt: the parent's zombies have but one of the two, or only one zombie is in question and
both figures add up to its pages. Otherwise they stay untold."""

from __future__ import annotations

from collections.abc import Iterable

from zombiescope.facts.cgroups import MemoryUse, Residuals
from zombiescope.facts.zombies import Walk, Zombie

_FACTS = ("zombies[].pages.shmem", "zombies[].pages.anon")


def split_by_residual(walk: Walk, residuals: Residuals) -> Walk:
    in_question = {zombie.parent for zombie in walk.zombies if zombie.unsplit_pages}
    if not in_question:
        return walk
    split: dict[int, Zombie] = {}
    for parent in in_question - residuals.unsplit - residuals.garbled:
        family = [zombie for zombie in walk.zombies if zombie.parent == parent]
        split |= {zombie.serial: zombie for zombie in _split(family, residuals.by_parent.get(parent), walk.page_bytes)}
    zombies = tuple(split.get(zombie.serial, zombie) for zombie in walk.zombies)
    is_all = not any(zombie.unsplit_pages for zombie in zombies)
    return walk._replace(zombies=zombies, gaps=tuple(gap for gap in walk.gaps if not (is_all and gap.fact in _FACTS)))


def _split(family: list[Zombie], use: MemoryUse | None, page_bytes: int) -> Iterable[Zombie]:
    if use is None:
        return []
    untold = [zombie for zombie in family if zombie.unsplit_pages]
    shmem = use.shmem // page_bytes - sum(zombie.pages.shmem or 0 for zombie in family)
    anon = use.anon // page_bytes - sum(zombie.pages.anon or 0 for zombie in family)
    if shmem + anon != sum(zombie.unsplit_pages for zombie in untold):
        return []
    if anon == 0:
        return [_told(zombie, zombie.unsplit_pages, 0) for zombie in untold]
    if shmem == 0:
        return [_told(zombie, 0, zombie.unsplit_pages) for zombie in untold]
    return [_told(untold[0], shmem, anon)] if len(untold) == 1 and min(shmem, anon) > 0 else []


def _told(zombie: Zombie, shmem: int, anon: int) -> Zombie:
    return zombie._replace(pages=zombie.pages._replace(shmem=shmem, anon=anon), unsplit_pages=0)
