# SPDX-License-Identifier: Apache-2.0
"""Our own sampler and perf on the running kernel: each sees what ran, names it, and a killed recording loses nothing."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.kernel.conftest import not_here
from tests.kernel.test_kernel_log import forge
from tests.kernel.test_perf_captures import has_samples, until

from zombiescope.kernel.kmsg import monotonic_lead_ns
from zombiescope.pipeline.profile_events import keeper
from zombiescope.profiler.asking import open_capture
from zombiescope.profiler.files.sources import GROWING, try_perf
from zombiescope.profiler.files.store import entries
from zombiescope.web.captures import span_of

pytestmark = pytest.mark.kernel
COMMAND = [sys.executable, "-m", "zombiescope", "profile", "record", "--with", "own", "--rate", "199"]
SPIN = "import sys\nwhile True:\n    open('/dev/zero', 'rb', buffering=0).read(1 << 20)\n"


@pytest.fixture
def spinner() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", SPIN])
    os.setpriority(os.PRIO_PROCESS, process.pid, -5)  # whoever else is busy
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("who", ["own", "perf"])
def test_it_sees_a_process_in_the_kernel(tmp_path: Path, spinner: subprocess.Popen[bytes], who: str) -> None:
    if who == "perf" and (complaint := try_perf(199).complaint):
        not_here(f"perf cannot sample here: {complaint}")
    began = time.time()
    subprocess.run(
        [*COMMAND, "--with", who, "--seconds", "4", "--segment", "2", "--captures", str(tmp_path)], check=True
    )
    stored = entries(os.fsencode(tmp_path))
    assert 1 <= len(stored) <= 2, "a loaded machine may need the rest of the time to begin the second"
    assert not list(tmp_path.glob("*.recording"))
    captures = [open_capture(os.fsencode(tmp_path), one.name).capture for one in stored]
    capture = max(captures, key=lambda one: int(np.count_nonzero(one.pid == spinner.pid)))
    mine = np.flatnonzero(capture.pid == spinner.pid)
    assert len(mine) > 5
    assert capture.about.clock is not None
    wall = (capture.about.clock.wall_ns + int(capture.time[-1]) - capture.about.clock.sample_ns) / 1e9
    assert began - 1 <= wall <= time.time() + 1
    names = {capture.frame_names[frame] for frame in capture.tree.frame[capture.node[mine]].tolist()}
    assert (
        names & {"rep_stos_alternative", "read_zero", "clear_user", "__clear_user", "_copy_to_iter", "read_iter_zero"}
        or len(names) > 3
    )
    assert {capture.comms[number] for number in capture.comm[mine].tolist()} & {"python", "python3", "python3.11"}


def test_a_killed_recording_is_picked_up_by_the_next(tmp_path: Path) -> None:
    first = subprocess.Popen([*COMMAND, "--captures", str(tmp_path)])
    until(lambda: [one for one in tmp_path.glob("*" + GROWING.decode()) if has_samples(one)])
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert len(list(tmp_path.glob("*.recording"))) == 1
    subprocess.run([*COMMAND, "--seconds", "1", "--captures", str(tmp_path)], check=True)
    assert not list(tmp_path.glob("*.recording"))
    assert len(entries(os.fsencode(tmp_path))) == 2


def test_the_clock_of_the_kernels_log_is_known() -> None:
    """A line that is written between two looks at our clock has its stamp between them, moved by what we say."""
    lead = monotonic_lead_ns()
    if lead is None:
        not_here("perf_event_open is refused")
        return
    mark = f"zombiescope {secrets.token_hex(8)}"
    descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.lseek(descriptor, 0, os.SEEK_END)
        before = time.monotonic()
        forge(f"{mark}\n")
        after = time.monotonic()
        record = b""
        while mark.encode() not in record:
            record = os.read(descriptor, 16_384)
    finally:
        os.close(descriptor)
    stamp = int(record.split(b",")[2]) / 1e6 + lead / 1e9
    assert before - 0.05 <= stamp <= after + 0.05


def test_a_reset_in_the_kernels_log_is_an_event_to_keep(tmp_path: Path) -> None:
    """Written the way the lab does: believed only by who was told to."""
    card = f"lab{secrets.token_hex(4)}"
    subprocess.run([*COMMAND, "--seconds", "1", "--captures", str(tmp_path)], check=True)
    span = span_of(open_capture(os.fsencode(tmp_path), "latest").capture)
    believing, doubting = keeper(("nic-reset",), believe_users=True), keeper(("nic-reset",))
    doubting(span)
    believing(span)
    forge(f"ena 0000:00:05.0 {card}: Trigger reset is on\n")
    forge("ena 0000:00:05.0: Device reset completed successfully\n")
    assert believing(span)
    assert not doubting(span)
