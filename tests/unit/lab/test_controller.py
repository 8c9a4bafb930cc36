# SPDX-License-Identifier: Apache-2.0
"""The memory controller at a root that belongs to everybody: noted, turned on, turned off, or left on with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.errors import ActionFailedError
from zombiescope.lab import hierarchy as controller
from zombiescope.lab.hierarchy import MemoryHierarchy


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setattr(controller, "STATE_ROOTS", (str(folder),))
    return folder


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that obeys as the kernel's root does: `+memory` and `-memory` change what is read afterwards."""
    folder = tmp_path / "cgroup"
    folder.mkdir()
    (folder / "cgroup.subtree_control").write_text("cpu pids\n")

    def obey(path: str, content: bytes) -> None:
        words = set(Path(path).read_text().split())
        sign, word = content[:1], content[1:].decode()
        Path(path).write_text(" ".join(sorted(words | {word} if sign == b"+" else words - {word})) + "\n")

    monkeypatch.setattr(controller, "write_file", obey)
    return folder


def handed_down(root: Path) -> bool:
    return "memory" in (root / "cgroup.subtree_control").read_text().split()


def neighbour(root: Path, **values: str) -> Path:
    folder = root / "neighbour"
    folder.mkdir()
    usual = {"current": "0", "max": "max", "high": "max", "min": "0", "low": "0"}
    for name, value in (usual | values).items():
        (folder / f"memory.{name}").write_text(value + "\n")
    (folder / "cgroup.subtree_control").write_text("\n")
    return folder


def test_turned_on_after_the_note_and_off_again(root: Path, state: Path) -> None:
    hierarchy = MemoryHierarchy("v2", str(root))
    controller.hand_down(hierarchy)
    assert handed_down(root)
    assert (state / controller.NOTE).exists()
    neighbour(root)
    assert controller.take_back(hierarchy) == ""
    assert not handed_down(root)
    assert not (state / controller.NOTE).exists()


def test_what_was_on_before_stays_on(root: Path, state: Path) -> None:
    (root / "cgroup.subtree_control").write_text("memory\n")
    hierarchy = MemoryHierarchy("v2", str(root))
    controller.hand_down(hierarchy)
    assert not state.exists()
    assert controller.take_back(hierarchy) == ""
    assert handed_down(root)


@pytest.mark.parametrize("values", [{"current": "4096"}, {"max": "1048576"}, {"low": "1"}])
def test_stays_on_while_a_neighbour_uses_it_and_goes_once_it_does_not(
    root: Path, state: Path, values: dict[str, str]
) -> None:
    hierarchy = MemoryHierarchy("v2", str(root))
    controller.hand_down(hierarchy)
    folder = neighbour(root, **values)
    assert "/neighbour has come to use it" in controller.take_back(hierarchy)
    assert handed_down(root)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert controller.take_back(hierarchy) == ""
    assert not handed_down(root)


def test_stays_on_while_a_neighbour_hands_it_on(root: Path, state: Path) -> None:
    hierarchy = MemoryHierarchy("v2", str(root))
    controller.hand_down(hierarchy)
    (neighbour(root) / "cgroup.subtree_control").write_text("memory\n")
    assert "/neighbour" in controller.take_back(hierarchy)
    assert handed_down(root)


def test_a_neighbour_that_cannot_be_read_is_taken_to_use_it(root: Path, state: Path) -> None:
    hierarchy = MemoryHierarchy("v2", str(root))
    controller.hand_down(hierarchy)
    (root / "opaque").mkdir()
    assert "/opaque" in controller.take_back(hierarchy)


def test_the_note_of_another_boot_means_nothing(root: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hierarchy = MemoryHierarchy("v2", str(root))
    controller.hand_down(hierarchy)
    monkeypatch.setattr(controller, "boot_id", lambda: "another")
    assert controller.take_back(hierarchy) == ""
    assert handed_down(root)


def test_v1_has_no_such_switch(root: Path, state: Path) -> None:
    controller.hand_down(MemoryHierarchy("v1", str(root)))
    assert not handed_down(root)
    assert not state.exists()


def test_a_kernel_that_refuses_is_a_sentence_and_leaves_no_note(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, content: bytes) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(controller, "write_file", refuse)
    with pytest.raises(ActionFailedError, match="cannot enable the memory controller below /"):
        controller.hand_down(MemoryHierarchy("v2", str(root)))
    assert not (state / controller.NOTE).exists()


def test_without_a_place_for_the_note_nothing_is_turned_on(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").write_text("a file is in the way")
    monkeypatch.setattr(controller, "STATE_ROOTS", (str(tmp_path / "state"),))
    with pytest.raises(ActionFailedError, match="cannot note"):
        controller.hand_down(MemoryHierarchy("v2", str(root)))
    assert not handed_down(root)
