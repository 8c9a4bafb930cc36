# SPDX-License-Identifier: Apache-2.0
"""The limits while a stranger's file is read: they hold, they become an error with a way on, and they are put back."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zombiescope.errors import ObservationError
from zombiescope.host import bounds
from zombiescope.host.bounds import Budget, allow, bounded, input_bytes


def limits() -> tuple[object, ...]:
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_CPU)
    return *map(resource.getrlimit, kinds), signal.getsignal(signal.SIGXCPU)


HUNGRY = """
import resource
from zombiescope.errors import ObservationError
from zombiescope.host.bounds import Budget, bounded
before = resource.getrlimit(resource.RLIMIT_AS)
try:
    with bounded("cannot read x", Budget(1000, 64)):
        bytearray(1 << 30)
except ObservationError as error:
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    print(error.what, error.why, error.hint, sep=chr(10))
"""


def test_too_much_memory_is_an_error_with_a_way_on() -> None:
    """In a process of its own: in this one, libraries of other tests give address space back whenever they like."""
    ended = subprocess.run([sys.executable, "-c", HUNGRY], capture_output=True, text=True, check=True)
    what, why, hint = ended.stdout.splitlines()
    assert what == "cannot read x"
    assert "192 MiB" in why and "1,000 bytes" in why and hint


def test_a_large_file_is_allowed_more() -> None:
    with bounded("cannot read x", Budget(64 << 20, 8)):
        assert len(bytearray(400 << 20)) == 400 << 20


def test_too_much_processor_time_is_an_error_with_a_way_on(monkeypatch: pytest.MonkeyPatch) -> None:
    before = limits()
    monkeypatch.setattr(bounds, "BASE_SECONDS", 0)
    with pytest.raises(ObservationError, match="processor time"), bounded("cannot read x", Budget(1000, 64)):
        while True:
            pass
    assert limits() == before


def test_limits_that_are_there_are_only_narrowed() -> None:
    with bounded("cannot read x", Budget(0, 0)):
        outer, _ = resource.getrlimit(resource.RLIMIT_AS)
        with bounded("cannot read y", Budget(1 << 40, 64)):
            assert resource.getrlimit(resource.RLIMIT_AS)[0] == outer
        allow(1 << 20)
        assert resource.getrlimit(resource.RLIMIT_AS)[0] == outer + (1 << 20)


def test_outside_nothing_is_changed_by_a_mapped_file() -> None:
    before = limits()
    allow(1 << 20)
    assert limits() == before


def test_holes_do_not_count(tmp_path: Path) -> None:
    place = tmp_path / "holes"
    with place.open("wb") as file:
        file.write(b"x")
        file.truncate(1 << 30)
    assert input_bytes(os.stat(place)) <= 1 << 20
    place.write_bytes(b"x" * 100_000)
    assert input_bytes(os.stat(place)) == 100_000
