# SPDX-License-Identifier: Apache-2.0
"""Names, the table of segments, the truth document and the errors of the lab, without a kernel."""

from __future__ import annotations

import errno
import mmap
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.truth_table import SEEN_AS

from zombiescope.errors import UsageError
from zombiescope.lab.pins import references
from zombiescope.lab.places import checked_run_name, is_run_name, new_run_name, refusal
from zombiescope.lab.runs import KINDS, PINS, LeakOrder, checked_maker, fresh_path
from zombiescope.lab.truth import Made, Truth, truth_document


@given(st.text())
def test_a_run_name_can_never_leave_its_folder(name: str) -> None:
    try:
        accepted = checked_run_name(name)
    except UsageError as error:
        assert error.hint
        return
    assert "/" not in accepted
    assert accepted not in ("", ".", "..")
    assert os.path.basename(os.path.normpath(f"/root/{accepted}")) == accepted


def test_made_up_names_are_good_names() -> None:
    assert is_run_name(new_run_name())
    assert new_run_name() != new_run_name()


@given(st.text())
def test_a_maker_can_never_leave_the_subtree(name: str) -> None:
    try:
        accepted = checked_maker(name)
    except UsageError:
        return
    order = LeakOrder(accepted, 60, None, "service", "tmpfs")
    assert fresh_path(order) == [f"system.slice/{accepted}.service"]
    assert ".." not in fresh_path(order)[0].split("/")


def test_containers_have_fresh_ids_and_tasks_hold_them() -> None:
    docker, ecs = (LeakOrder("x", 60, None, style, "tmpfs") for style in ("docker", "ecs"))
    assert fresh_path(docker) != fresh_path(docker)
    outer, inner = fresh_path(ecs)
    assert inner.startswith(outer + "/")
    assert len(inner.rpartition("/")[2]) == 64


@pytest.mark.parametrize(("seconds", "per_minute", "lives"), [(60, 60, 60), (0.5, 600, 5), (1, 1, 1), (None, 5, None)])
def test_how_many_lives_a_leak_has(seconds: float | None, per_minute: float, lives: int | None) -> None:
    assert LeakOrder("x", per_minute, seconds, "service", "tmpfs").expected == lives


def _row(key: int, size: int = mmap.PAGESIZE, uid: int | None = None) -> str:
    owner = os.geteuid() if uid is None else uid
    return f"{key:10d} 17 1600 {size} 4242 4242 0 {owner} 0 0 0 0 0 0 4096 0"


def test_only_segments_with_our_key_size_and_owner_are_candidates() -> None:
    rows = [_row(0x7A6C0001), _row(0x7A6D0000), _row(0x7A6C0002, size=1), _row(0x7A6C0003, uid=54321), "short row", ""]
    found = references.list_candidates("\n".join(["key shmid ...", *rows]))
    assert [(segment.key, segment.id, segment.creator) for segment in found] == [(0x7A6C0001, 17, 4242)]


def test_the_truth_counts_what_it_lists() -> None:
    made = (Made(1, "/a", "child", None, 0), Made(2, "/a/kid", "tmpfs", "/dev/shm/x", 4096))
    document = truth_document(Truth("r1", "/s", "v1", "zombies", made))
    assert document["schema"] == "zombiescope.lab/1"
    assert document["counts"]["by_pin"] == {"child": 1, "tmpfs": 1}
    assert (document["counts"]["zombies"], document["counts"]["visible"], document["counts"]["bytes"]) == (2, 0, 4096)
    assert [row["id"] for row in document["made"]] == [1, 2]


def test_visible_directories_are_not_counted_as_zombies() -> None:
    document = truth_document(Truth("r1", "/s", "v1", "zombies", (Made(1, "/a", "visible", None, 0),), visible=True))
    assert (document["counts"]["zombies"], document["counts"]["visible"]) == (0, 1)


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOSPC, errno.EBUSY, errno.ENOMEM, errno.EPERM, errno.EIO])
def test_every_refusal_says_why_and_what_to_type(number: int) -> None:
    error = refusal("cannot make the cgroup /x", OSError(number, os.strerror(number)))
    assert error.why
    assert error.hint
    assert error.exit_code == 5


def test_every_kind_is_there_once_and_says_what_it_must_look_like() -> None:
    assert len(set(KINDS)) == len(PINS) == 12
    assert set(KINDS) - set(SEEN_AS) == {"visible"}
