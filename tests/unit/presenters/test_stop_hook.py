# SPDX-License-Identifier: Apache-2.0
"""The stop hook's own shell line, run by a real shell over folders that look like a cgroup."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from zombiescope.presenters.systemd_unit import render_stop_hook


def run_hook(group: Path) -> None:
    """As systemd would: the dollars halved; the cgroup is found in a file of ours."""
    text = render_stop_hook("x.service", sync=False)
    line = next(each for each in text.splitlines() if each.startswith("ExecStopPost=-/bin/sh -c '"))
    script = line.partition("'")[2].removesuffix("'").replace("$$", "$")
    listing = group.parent / "cgroup"
    listing.write_text(f"0::{group}\n")
    script = script.replace("/proc/self/cgroup", str(listing)).replace("/sys/fs/cgroup/memory$p", "/none")
    script = script.replace("/sys/fs/cgroup$p", "$p")
    subprocess.run(["/bin/sh", "-c", script], check=True, capture_output=True)


@pytest.fixture
def group(tmp_path: Path) -> Path:
    folder = tmp_path / "x.service"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(("swap", "before"), [("memory.swap.max", "max\n"), ("memory.swappiness", "60\n")])
def test_it_reclaims_without_swap_and_puts_the_value_back(group: Path, swap: str, before: str) -> None:
    (group / swap).write_text(before)
    os.mkfifo(group / "memory.reclaim")
    # Writing to a pipe waits for its reader, who comes only once swap is off.
    wait = f'until [ "$(cat {swap})" = 0 ]; do :; done; cat memory.reclaim'
    with subprocess.Popen(["timeout", "30", "/bin/sh", "-c", wait], cwd=group, stdout=subprocess.PIPE) as reader:
        run_hook(group)
        assert reader.communicate()[0] == b"1G\n"
    assert (group / swap).read_text() == before


def test_a_kernel_without_swap_accounts_is_reclaimed_all_the_same(group: Path) -> None:
    (group / "memory.force_empty").write_text("")
    run_hook(group)
    assert (group / "memory.force_empty").read_text() == "0\n"
    assert sorted(path.name for path in group.iterdir()) == ["memory.force_empty"], "it makes nothing"


def test_a_kernel_that_has_neither_does_not_fail_the_unit(group: Path) -> None:
    run_hook(group)
    assert list(group.iterdir()) == []
