# SPDX-License-Identifier: Apache-2.0
"""Captures that perf itself recorded, in every form that it has: read to the same samples that perf script reads."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from tests.kernel.conftest import not_here

from zombiescope.errors import ZombiescopeError
from zombiescope.profiler.files.reading import Choices, read_capture
from zombiescope.profiler.files.store import entries
from zombiescope.profiler.stacks.capture import Capture
from zombiescope.profiler.stacks.flame_graph import paths

pytestmark = pytest.mark.kernel
T = TypeVar("T")
SPIN = "import time\nwhile time.process_time() < 1: open('/dev/zero', 'rb').read(1 << 16)\n"
CPP = """#include <ctime>
namespace engine { struct Room { __attribute__((noinline)) unsigned long turn(unsigned long n) {
  unsigned long s = n; for (int i = 0; i < 100000; i++) s = s * 6364136223846793005ul + i; return s; } }; }
int main() { engine::Room room; unsigned long s = 0;
  while (std::clock() < CLOCKS_PER_SEC / 2) s += room.turn(s); return s == 1; }
"""
JIT = r"""#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
int main(void) {
  unsigned char code[] = {0xb9, 0x40, 0x42, 0x0f, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0xc3}; /* count a million down */
  unsigned char *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(at, code, sizeof code);
  char name[64]; snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
  FILE *map = fopen(name, "w"); fprintf(map, "%lx %lx made_while_running\n", (unsigned long)at, sizeof code); fclose(map);
  while (clock() < CLOCKS_PER_SEC) ((void (*)(void))at)();
  return 0;
}
"""


@pytest.fixture(autouse=True)
def perf() -> str:
    found = shutil.which("perf")
    if found is None or os.geteuid() != 0:
        not_here("perf and root are needed")
    return str(found)


def record(tmp_path: Path, options: list[str], command: list[str]) -> Path:
    file = tmp_path / "perf.data"
    base = ["perf", "record", "-q", "-F", "499", "-g", "-N", "-B", *options]
    if "-" in options:
        with file.open("wb") as out:
            subprocess.run([*base, "--", *command], check=True, stdout=out, stderr=subprocess.DEVNULL)
    else:
        subprocess.run([*base, "-o", str(file), "--", *command], check=True, stderr=subprocess.DEVNULL)
    return file


def of_perf_script(file: Path) -> int:
    listing = subprocess.run(
        ["perf", "script", "-i", str(file), "-G", "-F", "tid,time"], capture_output=True, check=True
    ).stdout
    return len(listing.splitlines())


def names(capture: Capture) -> set[str]:
    leaves = np.unique(capture.node).astype(np.int64)
    return {capture.frame_names[frame] for path in paths(capture, leaves) for frame in path}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["-e", "cpu-clock"], id="file"),
        pytest.param(["-e", "cpu-clock", "-z"], id="compressed"),
        pytest.param(["-e", "cpu-clock", "-o", "-"], id="pipe"),
        pytest.param(["-e", "cpu-clock,context-switches,page-faults"], id="several events"),
        pytest.param(["-e", "cpu-clock", "-k", "CLOCK_MONOTONIC", "--buildid-mmap"], id="build ids"),
    ],
)
def test_every_form_gives_the_samples_of_perf_script(tmp_path: Path, options: list[str]) -> None:
    file = record(tmp_path, options, [sys.executable, "-c", SPIN])
    if "-z" in options and b"COMPRESSED" not in _dump(file):
        not_here("this perf was built without zstd")
    capture = read_capture(os.fsencode(file), Choices())
    assert len(capture) == of_perf_script(file) > 30
    assert np.all(np.diff(capture.time.astype(np.int64)) >= 0)
    assert names(capture) & {"vfs_read", "ksys_read", "read_iter_zero", "rep_stos_alternative", "do_syscall_64"}
    with_numpy_alone = read_capture(os.fsencode(file), Choices(use_scanner=False))
    assert np.array_equal(with_numpy_alone.time, capture.time)
    assert names(with_numpy_alone) == names(capture)
    if "," in options[1]:
        assert {"cpu-clock", "page-faults"} <= {name.split(":")[0] for name in capture.events}
        assert len(np.unique(capture.event)) > 1
    if "--buildid-mmap" in options:
        assert capture.about.clock is not None
        assert any(path.endswith(("libc.so.6", "libpython3.11.so.1.0")) for path in capture.frame_files)


def _dump(file: Path) -> bytes:
    return subprocess.run(["perf", "report", "-D", "-i", str(file)], capture_output=True, check=False).stdout


def test_names_of_cpp_are_written_plainly(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        not_here("g++ and its runtime are needed")
    source, program = tmp_path / "room.cc", tmp_path / "room"
    source.write_text(CPP)
    subprocess.run(["g++", "-O1", "-fno-omit-frame-pointer", "-o", program, source], check=True)
    file = record(tmp_path, ["-e", "cpu-clock"], [str(program)])
    assert "engine::Room::turn(unsigned long)" in names(read_capture(os.fsencode(file), Choices()))
    assert "_ZN6engine4Room4turnEm" in names(read_capture(os.fsencode(file), Choices(demangle=False)))


def test_code_made_while_running_is_named_by_its_map(tmp_path: Path) -> None:
    if shutil.which("cc") is None or os.uname().machine != "x86_64":
        not_here("a C compiler on x86-64 is needed")
    source, program = tmp_path / "jit.c", tmp_path / "jit"
    source.write_text(JIT)
    subprocess.run(["cc", "-O1", "-fno-omit-frame-pointer", "-o", program, source], check=True)
    file = record(tmp_path, ["-e", "cpu-clock"], [str(program)])
    capture = read_capture(os.fsencode(file), Choices())
    for pid in np.unique(capture.pid).tolist():
        Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)
    assert "made_while_running" in names(capture)


ROLLING = [sys.executable, "-m", "zombiescope", "profile", "record", "--with", "perf", "--rate", "199"]
PERIOD_NS = 1_000_000_000 // 199 * 2


def test_rolling_segments_of_perf_leave_no_moment_out(tmp_path: Path) -> None:
    """Each begins before the one before it ends, on the kernel log's clock."""
    began = time.time()
    recording = subprocess.Popen([*ROLLING, "--segment", "1.5", "--captures", str(tmp_path)])
    until(lambda: len(list(tmp_path.glob("*.zscap"))) >= 2)
    recording.send_signal(signal.SIGTERM)
    assert recording.wait(300) == 0
    assert not list(tmp_path.glob("*.recording"))
    parts = [read_capture(one.path, Choices()) for one in entries(os.fsencode(tmp_path))]
    for before, after in pairwise(parts):
        assert before.time[0] < after.time[0] <= before.time[-1] + PERIOD_NS
    for part in parts:
        assert part.about.clock is not None
        assert part.about.rate_hz == 199
        wall = (part.about.clock.wall_ns + int(part.time[-1]) - part.about.clock.sample_ns) / 1e9
        assert began - 1 <= wall <= time.time() + 1


def test_perf_ends_with_a_killed_recording_and_the_next_picks_it_up(tmp_path: Path) -> None:
    first = subprocess.Popen([*ROLLING, "--captures", str(tmp_path)])
    growing = until(lambda: [one for one in tmp_path.glob("*.recording") if has_samples(one)])
    first.send_signal(signal.SIGKILL)
    first.wait()
    until(lambda: not writers_of(growing[0]))
    assert growing[0].exists()
    subprocess.run([*ROLLING, "--seconds", "1", "--captures", str(tmp_path)], check=True)
    assert not growing[0].exists()
    assert growing[0].stem in {one.name for one in entries(os.fsencode(tmp_path))}


def has_samples(file: Path) -> bool:
    try:
        return len(read_capture(os.fsencode(file), Choices())) > 0
    except ZombiescopeError:
        return False


def until(look: Callable[[], T], seconds: float = 300) -> T:
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.1)
    return found


def writers_of(file: Path) -> list[int]:
    """Processes that have it open."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/1"):
        try:
            if link.readlink() == file:
                found.append(int(link.parts[2]))
        except OSError:
            continue
    return found
