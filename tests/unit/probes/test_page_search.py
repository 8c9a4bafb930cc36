# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.build import V1, V1_MOUNT, V2, ScriptedHost

from zombiescope.facts.page_pins import Proof
from zombiescope.facts.zombies import PinKind
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.kernel.file_pages import Candidate, FoundFile
from zombiescope.kernel.pages import ResidentWindow, open_window
from zombiescope.probes.page_search import Hit, Jury

STAT = V1_MOUNT + b"/a/memory.stat"
EXACT = {b"/proc/kallsyms": b"ffffffff816887a0 t mem_cgroup_css_rstat_flush\n"}
ALL_OWN_NONE = b"cache 0\nshmem 0\nmapped_file 0\ntotal_mapped_file 0\n"


@pytest.fixture
def window() -> Iterator[ResidentWindow]:
    with open_window() as opened:
        yield opened


def hit(door: bytes, pages: int = 1, resident: int | None = None, kind: PinKind = PinKind.TMPFS) -> Hit:
    candidate = Candidate(door, door or None, b"/f (deleted)", "tmpfs", 9)
    resident = pages if resident is None else resident
    found = FoundFile(candidate, None, "0:5", 3, Counter({1: pages}), resident, pages, False)
    return Hit(found, b"/a", kind, pages)


def stat(own: int, below: int) -> bytes:
    total = (own + below) * PAGE_BYTES
    return b"cache 8192\nshmem 8192\nmapped_file %d\ntotal_mapped_file %d\n" % (own * PAGE_BYTES, total)


def test_a_parent_that_owns_none_has_zombies_pages_only(window: ResidentWindow) -> None:
    host = ScriptedHost({STAT: ALL_OWN_NONE, b"/proc/9/stat": b"9 (bad\x1bname) S 1", **EXACT})
    (file,), undecided = Jury(host, V1, window).decide([hit(b"/x")])
    assert (file.parent, file.proof, file.pin.pages, file.holders) == (b"/a", Proof.PARENT_OWNS_NONE, 1, (9,))
    assert file.pin.holder is not None and file.pin.holder.said == "pid 9 (bad\\x1bname)"
    assert file.pin.path is None and file.pin.path_in_fs == b"/f"
    assert not undecided
    assert host.waited > 2


@pytest.mark.parametrize("symbols", [{}, {b"/proc/kallsyms": b"ffffffff816887a0 t memory_stat_show\n"}])
def test_a_kernel_that_leaves_small_figures_out_is_not_believed_when_it_says_none(
    window: ResidentWindow, symbols: dict[bytes, bytes]
) -> None:
    files, undecided = Jury(ScriptedHost({STAT: ALL_OWN_NONE, **symbols}), V1, window).decide([hit(b"", 2)])
    assert files == [] and undecided == {b"/a": 2}


def test_own_file_pages_do_not_cast_doubt_on_shared_memory(window: ResidentWindow) -> None:
    host = ScriptedHost({STAT: b"cache 4096\nshmem 0\n", **EXACT})
    files, undecided = Jury(host, V1, window).decide([hit(b"/x"), hit(b"", kind=PinKind.PAGE_CACHE)])
    assert [file.pin.kind for file in files] == [PinKind.TMPFS]
    assert undecided == {b"/a": 1}


def test_a_v2_parent_hands_its_memory_on(window: ResidentWindow) -> None:
    host = ScriptedHost({})
    (file,), undecided = Jury(host, V2, window).decide([hit(b"/x", 4)])
    assert (file.proof, file.pin.pages) == (Proof.PARENT_HANDS_ON, 4)
    assert not undecided and host.waited == 0


@pytest.mark.parametrize("text", [b"", b"\xff", b"cache 1\n"])
def test_a_parent_that_tells_nothing_proves_nothing(window: ResidentWindow, text: bytes) -> None:
    files, undecided = Jury(ScriptedHost({STAT: text}), V1, window).decide([hit(b"", 2)])
    assert files == [] and undecided == {b"/a": 2}


def test_mixed_figures_are_split_until_each_file_is_told(window: ResidentWindow, tmp_path: Path) -> None:
    hits = []
    for name in ("dead", "own"):
        (tmp_path / name).write_bytes(b"z" * PAGE_BYTES)
        hits.append(hit(bytes(tmp_path / name)))
    both = [stat(5, 5), stat(6, 6), stat(5, 5)]
    dead = [stat(5, 5), stat(5, 6), stat(5, 5)]
    own = [stat(5, 5), stat(6, 5), stat(5, 5)]
    host = ScriptedHost({STAT: [stat(5, 5), *both, *dead, *own]})
    (file,), undecided = Jury(host, V1, window).decide(hits)
    assert (file.proof, file.pin.pages) == (Proof.MAPPED, 1)
    assert undecided == {b"/a": 1}


def test_pages_of_others_in_the_same_file_leave_it_undecided(window: ResidentWindow, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"z" * PAGE_BYTES)
    host = ScriptedHost({STAT: stat(5, 5)})
    files, undecided = Jury(host, V1, window).decide([hit(bytes(tmp_path / "f"), 1, resident=3)])
    assert files == [] and undecided == {b"/a": 1}
