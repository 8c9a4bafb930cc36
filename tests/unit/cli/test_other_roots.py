# SPDX-License-Identifier: Apache-2.0
"""Fault 12: `top` and `reap` look at a host mounted elsewhere, and say what cannot be done with a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from zombiescope.cli.commands.reap import reap
from zombiescope.cli.commands.top import top
from zombiescope.errors import UsageError
from zombiescope.execution.reap import evict
from zombiescope.facts.reaping import EvictionOrder
from zombiescope.facts.remedies import Remedy


def failed(command: object, *words: str) -> UsageError:
    result = CliRunner().invoke(command, list(words))  # type: ignore[arg-type]
    assert isinstance(result.exception, UsageError)
    return result.exception


def test_nothing_happens_in_a_folder(tmp_path: Path) -> None:
    error = failed(top, "--root", str(tmp_path))
    assert "nothing happens" in error.why
    assert str(tmp_path) in error.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="reap needs root")
def test_nothing_is_freed_in_a_folder(tmp_path: Path) -> None:
    assert "nothing can be freed there" in failed(reap, "--root", str(tmp_path)).why


def test_a_file_of_the_host_is_opened_below_its_root(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "data/f"
    file.write_bytes(b"x" * 8192)
    order = EvictionOrder(Remedy.DROP_FILE, b"/data/f", b"/", 2, frozenset({1}), inode=file.stat().st_ino)
    done = evict(order, b"/sys/fs/cgroup", str(tmp_path).encode())
    assert done.refused is None
    assert evict(order, b"/sys/fs/cgroup").refused is not None
