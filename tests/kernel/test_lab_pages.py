# SPDX-License-Identifier: Apache-2.0
"""The pages tier against the lab's truth: exactly which kinds it names, and that it names them right."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from tests.kernel.command import IN_MACHINE
from tests.kernel.exact_tiers import PAGES_PIN, told_if
from tests.kernel.lab_driver import LabDriver

from zombiescope.facts.cgroups import Hierarchy, Residuals
from zombiescope.facts.page_pins import NAMED_KINDS, PagePins, PinnedFile
from zombiescope.facts.zombies import PinKind
from zombiescope.host.live import LiveHost
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.memcg_residual import read_residuals
from zombiescope.probes.readers.page_pins import read_page_pins

COUNT = 4 if IN_MACHINE else 20
NAMED = {
    "tmpfs": PinKind.TMPFS,
    "child": PinKind.TMPFS,
    "memfd": PinKind.MEMFD,
    "shared-anon": PinKind.SHARED_ANON,
    "sysv-shm": PinKind.SYSV_SHM,
    "mapped-file": PinKind.PAGE_CACHE,
}
UNNAMED = ("page-cache", "dirty-file", "socket", "unreaped")


def pins_below(truths: Iterable[dict[str, Any]]) -> PagePins:
    """One look for all runs: statistics of the kernel need seconds to be true."""
    host = LiveHost()
    hierarchy = read_memory_hierarchy(host)
    assert isinstance(hierarchy, Hierarchy), hierarchy
    paths = {os.fsencode(truth["subtree"]) for truth in truths}
    residuals = read_residuals(host, hierarchy, paths)
    assert isinstance(residuals, Residuals), residuals
    mine = {parent: use for parent, use in residuals.by_parent.items() if parent in paths}
    found = read_page_pins(host, hierarchy, residuals._replace(by_parent=mine))
    assert isinstance(found, PagePins), found
    return found


@told_if(PAGES_PIN)
@pytest.mark.kernel
def test_kinds_with_a_file_are_named_page_for_page(lab: LabDriver) -> None:
    truths = {kind: lab.zombies(kind, COUNT) for kind in NAMED}
    found = pins_below(truths.values())
    for kind, truth in truths.items():
        _tells_the_truth(kind, truth, [file for file in found.files if file.parent == os.fsencode(truth["subtree"])])
    assert {file.pin.kind for file in found.files} <= NAMED_KINDS


def _tells_the_truth(kind: str, truth: dict[str, Any], files: list[PinnedFile]) -> None:
    assert {file.pin.kind for file in files} == {NAMED[kind]}
    assert sum(file.pin.pages or 0 for file in files) * os.sysconf("SC_PAGE_SIZE") == truth["counts"]["bytes"]
    names = {os.fsencode(made["file"]) for made in truth["made"] if made["file"]}
    if NAMED[kind] in (PinKind.TMPFS, PinKind.PAGE_CACHE):
        assert {file.pin.path for file in files} == names
    elif names:
        assert {b"/" + (file.pin.path_in_fs or b"").lstrip(b"/") for file in files} == names
    else:
        assert len({file.pin.inode for file in files}) == COUNT


@pytest.mark.kernel
def test_kinds_without_a_file_in_reach_are_not_made_up(lab: LabDriver) -> None:
    assert pins_below([lab.zombies(kind, COUNT) for kind in UNNAMED]).files == ()
