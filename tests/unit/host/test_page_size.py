# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import json
import mmap
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.build import ScriptedHost, v1_machine

from zombiescope.cli.main import main
from zombiescope.host.live import LiveHost
from zombiescope.host.page_size import PAGE_BYTES, page_bytes_of
from zombiescope.host.recorder import RecordingHost
from zombiescope.host.recording import MEMBER, Answer, ReplayHost
from zombiescope.host.scrub import Scrubber
from zombiescope.pipeline.record import record

MACHINES = Path(__file__).resolve().parents[2] / "machines"
OTHER = 4 * PAGE_BYTES


def replayed(outcome: dict[str, Any] | None) -> ReplayHost:
    return ReplayHost("a recording", [Answer(0.0, "experiment", b"page_bytes", outcome)])


def test_this_host_is_asked_and_a_recording_of_it_keeps_the_answer() -> None:
    host = RecordingHost(LiveHost(), Scrubber())
    assert page_bytes_of(host) == PAGE_BYTES == mmap.PAGESIZE
    assert page_bytes_of(ReplayHost("a recording", host.answers)) == PAGE_BYTES


def test_a_machine_with_other_pages_keeps_its_own() -> None:
    assert page_bytes_of(replayed({"bytes": OTHER})) == OTHER


@pytest.mark.parametrize("damaged", [None, {}, {"bytes": None}, {"bytes": "16384"}, {"bytes": 0}, {"bytes": 16385}])
def test_what_is_not_told_is_what_nearly_every_machine_has(damaged: dict[str, Any] | None) -> None:
    assert page_bytes_of(replayed(damaged)) == 4096


def test_pages_of_a_recorded_machine_are_counted_in_its_own_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same bytes are a quarter of the pages where pages are four times as large."""
    recording = (MACHINES / "6.1-v2" / MEMBER).read_text(encoding="utf-8")
    usual = _pages(recording, tmp_path / "usual", capsys)
    said = json.dumps({"at": 0.0, "ask": "experiment", "path": "page_bytes", "answer": {"bytes": 4 * 4096}})
    assert _pages(recording + said + "\n", tmp_path / "other", capsys) == usual // 4


def _pages(recording: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> int:
    folder.mkdir()
    (folder / MEMBER).write_text(recording, encoding="utf-8")
    assert main(["autopsy", "--json", "--root", str(folder)]) == 0
    return int(json.loads(capsys.readouterr().out)["totals"]["pages"])


def test_record_asks(tmp_path: Path) -> None:
    file = str(tmp_path / "x.tar.gz")
    record(ScriptedHost(v1_machine({})), file, 1)
    assert b'"path":"page_bytes","answer":{"bytes":' in gzip.decompress(Path(file).read_bytes())


_OF_64_KIB = """
import mmap, struct, sys
mmap.PAGESIZE = 65536  # as on an arm64 kernel that was built so: nothing here asks the kernel for pages
from zombiescope.kernel.file_pages import pages_of
from zombiescope.kernel.pages import PageFrames, largest_order
from zombiescope.kernel.perf_events import read_ring
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.probes.readers.page_pins import frame_ranges

assert (PAGE_BYTES, largest_order(PAGE_BYTES)) == (65536, 13)
assert PageFrames(-1, -1, -1)._largest_order == 13
assert [pages_of(size) for size in (0, 1, 65536, 65537)] == [0, 1, 1, 2]
assert frame_ranges(b"40000000-7fffffff : System RAM\\n") == [(0x4000, 0x8000)]
ring = mmap.mmap(-1, 3 * 65536)  # the page of the head, then two of records
ring[65536 + 131_064 : 65536 + 131_072], ring[65536 : 65536 + 8] = b"a" * 8, b"b" * 8
struct.pack_into("<QQ", ring, 1024, 131_080, 131_064)
assert read_ring(ring, 131_072) == b"a" * 8 + b"b" * 8
assert struct.unpack_from("<Q", ring, 1032) == (131_080,)
"""


def test_pages_of_64_kib_are_counted_in_their_own_size_everywhere() -> None:
    done = subprocess.run([sys.executable, "-c", _OF_64_KIB], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
