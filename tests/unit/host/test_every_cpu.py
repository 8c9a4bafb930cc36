# SPDX-License-Identifier: Apache-2.0
"""Every CPU is visited, also those that this thread was kept from, and afterwards it is where it was."""

from __future__ import annotations

import os
from contextlib import closing

import pytest

from zombiescope.host.page_size import every_cpu


def test_who_is_kept_to_one_cpu_still_comes_to_all() -> None:
    before = os.sched_getaffinity(0)
    everywhere = list(every_cpu())
    assert set(everywhere) >= before
    one = min(before)
    os.sched_setaffinity(0, {one})
    try:
        assert list(every_cpu()) == everywhere
        assert os.sched_getaffinity(0) == {one}
        with closing(every_cpu()) as cpus:
            next(cpus)
        assert os.sched_getaffinity(0) == {one}, "who stops in the middle is back, too"
    finally:
        os.sched_setaffinity(0, before)


def test_a_cpu_that_is_refused_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[set[int]] = []

    def refuse_two(_: int, cpus: set[int]) -> None:
        if cpus == {2}:
            raise OSError(22, "Invalid argument")
        asked.append(cpus)

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1})
    monkeypatch.setattr(os, "sched_setaffinity", refuse_two)
    monkeypatch.setattr(os, "sysconf", lambda _: 4)
    assert list(every_cpu()) == [0, 1, 3]
    assert asked[-1] == {1}
