# SPDX-License-Identifier: Apache-2.0
"""Story (g): on arm64, with pages of any size, the doctor judges and samples name who burns a core in the kernel.

That every kind of zombie is named by its pin, its file and its maker is told by the kernel tier, which goes along.
"""

from __future__ import annotations

import os
import subprocess
import time
from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.vm.cells import Cell
from tests.vm.stories.product import document

from zombiescope.kernel.perf_events import Sampler, kernel_only, parse_rings

pytestmark = pytest.mark.cells.with_args(lambda cell: cell.platform != "amd64")
PAGE_BYTES = {"arm64": 4096, "arm64-16k": 16384}
CORE, SAMPLES = 1, 40


@pytest.fixture
def burner() -> Iterator[int]:
    """A process that spends its time in the kernel, on one core."""
    command = ["taskset", "--cpu-list", str(CORE), "dd", "if=/dev/urandom", "of=/dev/null", "bs=64k"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def kernel_functions() -> tuple[list[int], list[str]]:
    """Where each begins, and its name."""
    rows = [line.split()[:3] for line in Path("/proc/kallsyms").read_text().splitlines() if line.split()[1] in "tT"]
    found = sorted((int(address, 16), name) for address, _, name in rows)
    return [address for address, _ in found], [name for _, name in found]


def test_the_machine_is_what_it_should_be(cell: Cell) -> None:
    assert os.uname().machine == "aarch64"
    assert os.sysconf("SC_PAGE_SIZE") == PAGE_BYTES[cell.platform]


def test_samples_name_who_burns_a_core_in_the_kernel(burner: int) -> None:
    """However slow the machine is: samples are waited for, and whose they are is what counts."""
    addresses, names = kernel_functions()
    sampler = Sampler(99, pages=16, ask=kernel_only)
    sampler.open([CORE])
    seen: Counter[str] = Counter()
    try:
        while seen.total() < SAMPLES:
            time.sleep(0.05)
            found = parse_rings(sampler.drain()).samples
            assert {sample.core for sample in found} <= {CORE}
            mine = [sample for sample in found if sample.thread == burner and sample.frames]
            seen.update(names[bisect(addresses, sample.frames[0]) - 1] for sample in mine)
    finally:
        sampler.close()
    assert any("chacha" in name or "random" in name for name in seen), seen


def test_the_strip_of_every_core_is_drawn() -> None:
    answer = document("cores", "--seconds", "1")
    assert [core["core"] for core in answer["cores"]] == [0, 1]


def test_the_doctor_judges_and_names_its_gaps() -> None:
    answer = document("doctor", "--seconds", "1")
    verdicts = {finding["id"]: finding["verdict"] for finding in answer["findings"]}
    assert verdicts["zombie-population"] in {"present", "absent"}
    assert verdicts["starved-softirq"] in {"present", "absent"}, answer["gaps"]
    assert not [gap for gap in answer["gaps"] if "not known on" in gap["reason"]], "a system call without its number"
