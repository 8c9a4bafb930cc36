# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.kernel.frames import page_frames

from zombiescope.errors import ObservationError
from zombiescope.kernel.pages import HEAD, TAIL, open_page_frames


def test_owners_of_frames_near_and_far(tmp_path: Path) -> None:
    frames = page_frames(tmp_path, {3: 7, 4: 8, 5000: 9})
    assert frames.owners([5000, 3, 4, 6]) == {3: 7, 4: 8, 5000: 9, 6: 0}


def test_frames_beyond_the_end_have_no_owner_to_tell(tmp_path: Path) -> None:
    assert page_frames(tmp_path, {3: 7}).owners([3, 900_000]) == {3: 7}


def test_the_first_page_answers_for_the_rest_of_a_huge_one(tmp_path: Path) -> None:
    flags = {512: HEAD, **dict.fromkeys(range(513, 1024), TAIL), 1030: TAIL}
    frames = page_frames(tmp_path, {512: 44, 2000: 1}, flags)
    assert frames.owners([512, 513, 1023, 1030]) == {512: 44, 513: 44, 1023: 44, 1030: 0}


@pytest.mark.parametrize(("page_bytes", "huge"), [(4096, 512), (16384, 2048), (65536, 8192)])
def test_a_huge_page_is_as_large_as_the_machine_makes_it(tmp_path: Path, page_bytes: int, huge: int) -> None:
    flags = {huge: HEAD, **dict.fromkeys(range(huge + 1, 2 * huge), TAIL)}
    frames = page_frames(tmp_path, {huge: 44, 3 * huge: 1}, flags, page_bytes=page_bytes)
    assert frames.owners([huge, 2 * huge - 1]) == {huge: 44, 2 * huge - 1: 44}


def test_only_present_pages_have_a_frame(tmp_path: Path) -> None:
    frames = page_frames(tmp_path, {}, own={10: 1 << 63 | 5, 11: 5, 12: 1 << 63 | 1 << 61 | 9})
    assert frames.at(10, 3) == [5, 0, 9]


def test_hidden_frame_numbers_are_said_so_and_not_taken_for_nothing(tmp_path: Path) -> None:
    frames = page_frames(tmp_path, {}, own={10: 1 << 63, 11: 1 << 63})
    with pytest.raises(ObservationError) as refused:
        frames.at(10, 2)
    assert "CAP_SYS_ADMIN" in refused.value.hint
    assert frames.at(8, 2) == [0, 0]


def test_a_kernel_without_the_files_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ObservationError) as refused, open_page_frames(bytes(tmp_path)):
        pass
    assert "kpagecgroup" in refused.value.why and refused.value.hint
