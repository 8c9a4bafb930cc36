# SPDX-License-Identifier: Apache-2.0
"""Story (g): on arm64, with pages of any size, the doctor judges and samples name who burns a core in the kernel.

That every kind of zombie is named by its pin, its file and its maker is told by the kernel tier, which goes along.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from tests.vm.cells import Cell
from tests.vm.stories.product import document

pytestmark = pytest.mark.cells.with_args(lambda cell: cell.platform != "amd64")
PAGE_BYTES = {"arm64": 4096, "arm64-16k": 16384}
CORE = 1


@pytest.fixture
def burner() -> Iterator[None]:
    """A process that spends its time in the kernel, on one core."""
    command = ["taskset", "--cpu-list", str(CORE), "dd", "if=/dev/urandom", "of=/dev/null", "bs=64k"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def test_the_machine_is_what_it_should_be(cell: Cell) -> None:
    assert os.uname().machine == "aarch64"
    assert os.sysconf("SC_PAGE_SIZE") == PAGE_BYTES[cell.platform]


@pytest.mark.usefixtures("burner")
def test_who_burns_a_core_in_the_kernel_is_named() -> None:
    answer = document("cores", "--seconds", "4")
    blames = [stretch["blame"] for stretch in answer["stretches"] if stretch["core"] == CORE]
    assert blames, answer
    functions = [function["name"] for blame in blames for function in blame["functions"]]
    assert any("random" in name or "chacha" in name for name in functions), functions
    assert "dd" in {process["name"] for blame in blames for process in blame["processes"]}


def test_the_doctor_judges_and_names_its_gaps() -> None:
    answer = document("doctor", "--seconds", "1")
    verdicts = {finding["id"]: finding["verdict"] for finding in answer["findings"]}
    assert verdicts["zombie-population"] in {"present", "absent"}
    for finding in ("saturated-core", "starved-softirq", "memory-shortage", "cpu-shortage"):
        assert verdicts[finding] in {"present", "absent"}, answer["gaps"]
