# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from tests.build import V1, ScriptedHost

from zombiescope.facts.cgroups import MemoryUse, Residuals
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import PagePins
from zombiescope.facts.zombies import PinKind
from zombiescope.host.live import LiveHost, TreeHost
from zombiescope.kernel.raw import kind_of_nameless
from zombiescope.probes.readers.page_pins import (
    detached_segments,
    frame_ranges,
    read_page_pins,
    try_page_frames,
)

SOME = Residuals({b"/a": MemoryUse(0, 4096, 0, 0, 0)}, frozenset())
HEADER = b"       key      shmid perms   size  cpid  lpid nattch uid gid cuid cgid atime dtime ctime rss swap\n"


def test_a_recording_has_no_pages(tmp_path: Path) -> None:
    for host in (ScriptedHost({}), TreeHost(bytes(tmp_path))):
        assert isinstance(read_page_pins(host, V1, SOME), Gap)
        assert isinstance(try_page_frames(host), Gap)


def test_a_machine_that_hides_its_pages_is_a_gap(tmp_path: Path) -> None:
    (tmp_path / "proc" / "1").mkdir(parents=True)
    host = LiveHost(bytes(tmp_path))
    found = read_page_pins(host, V1, SOME)
    assert isinstance(found, Gap) and "kpagecgroup" in found.reason and found.hint
    assert isinstance(try_page_frames(host), Gap)
    (tmp_path / "proc" / "iomem").write_text("00000000-00000000 : System RAM\n")
    hidden = try_page_frames(host)
    assert isinstance(hidden, Gap) and hidden.hint == "run as root"


def test_a_kernel_that_hands_pages_on_has_no_page_that_pins(tmp_path: Path) -> None:
    (tmp_path / "proc" / "1").mkdir(parents=True)
    (tmp_path / "proc" / "kallsyms").write_bytes(b"0 T lru_gen_reparent_memcg\n0 T lru_reparent_memcg\n")
    found = read_page_pins(LiveHost(bytes(tmp_path)), V1, SOME)
    assert isinstance(found, PagePins) and found.files == ()
    assert "hands the pages" in found.gaps[0].reason and found.gaps[0].hint


def test_nothing_to_explain_needs_no_look(tmp_path: Path) -> None:
    unsplit = Residuals({}, frozenset({b"/leaf"}))
    found = read_page_pins(LiveHost(bytes(tmp_path)), V1, unsplit)
    assert isinstance(found, PagePins) and found.files == ()
    assert "1 parents keep memory to themselves" in found.gaps[0].reason


def test_memory_is_where_the_kernel_says() -> None:
    inner = b"  00002000-00002fff : System RAM\n"
    text = b"00001000-0009ffff : System RAM\n" + inner + b"000a0000-000bffff : PCI\n100000000-1ffffffff : System RAM\n"
    assert frame_ranges(text) == [(1, 0xA0), (0x100000, 0x200000)]
    assert frame_ranges(b"\xff\n") == []


def test_only_resident_segments_that_nobody_has_attached() -> None:
    def row(key: int, number: int, attached: int, resident: int) -> bytes:
        return b"%d %d 600 5000 77 0 %d 0 0 0 0 0 0 0 %d 0\n" % (key, number, attached, resident)

    table = HEADER + row(-2, 5, 0, 4096) + row(1, 6, 1, 4096) + row(2, 7, 0, 0) + b"garbage\n1 2\n"
    (found,) = detached_segments(ScriptedHost({b"/proc/sysvipc/shm": table}))
    assert found == (0xFFFFFFFE, 5, 2)
    assert detached_segments(ScriptedHost({})) == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (b"memfd:x", PinKind.MEMFD),
        (b"dev/zero", PinKind.SHARED_ANON),
        (b"SYSV0000002a", PinKind.SYSV_SHM),
        (b"drm mm object", PinKind.OTHER),
    ],
)
def test_nameless_memory_is_called_by_what_made_it(name: bytes, kind: PinKind) -> None:
    assert kind_of_nameless(name) is kind
