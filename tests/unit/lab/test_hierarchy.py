# SPDX-License-Identifier: Apache-2.0
"""Which hierarchy has the memory controller, and what the lab does to a folder that stands for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.errors import ActionFailedError, ObservationError
from zombiescope.lab.hierarchy import MemoryHierarchy, find_hierarchy, squeeze
from zombiescope.lab.truth import dead_bytes, dead_count

V1 = r"""35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
CO_MOUNTED = "35 31 0:32 / /mnt/a\\040b rw - cgroup cgroup rw,cpu,memory\n"
V2 = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("table", "version", "mount"),
    [
        (V1, "v1", "/sys/fs/cgroup/memory"),
        (CO_MOUNTED, "v1", "/mnt/a b"),
        (V2, "v2", "/sys/fs/cgroup"),
        ("garbage\n\n - \n" + V2, "v2", "/sys/fs/cgroup"),
    ],
)
def test_found_in_the_mount_table(table: str, version: str, mount: str) -> None:
    found = find_hierarchy(table)
    assert (found.version, found.mount) == (version, mount)


def test_no_memory_controller_is_a_sentence() -> None:
    with pytest.raises(ObservationError, match="no mounted cgroup hierarchy has the memory controller"):
        find_hierarchy("22 1 254:1 / / rw - ext4 /dev/vda rw\n")


def _unified(folder: Path) -> MemoryHierarchy:
    (folder / "cgroup.subtree_control").write_text("cpu\n")
    return MemoryHierarchy("v2", str(folder))


def test_v2_hands_the_controller_down_level_by_level(tmp_path: Path) -> None:
    hierarchy = _unified(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "cgroup.subtree_control").write_text("")
    hierarchy.make_parents("/a")
    assert (tmp_path / "cgroup.subtree_control").read_text().startswith("+memory")
    assert (tmp_path / "a" / "cgroup.subtree_control").read_text() == "+memory"


def test_a_level_that_refuses_the_controller_is_a_sentence(tmp_path: Path) -> None:
    hierarchy = _unified(tmp_path)
    with pytest.raises(ActionFailedError, match="cannot enable the memory controller below /a"):
        hierarchy.make_parents("/a")


def test_deepest_first_and_gone_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    hierarchy = MemoryHierarchy("v1", str(tmp_path))
    order = list(hierarchy.deepest_first("/a"))
    assert order == ["/a/b/c", "/a/b", "/a"]
    assert [hierarchy.remove(path) for path in order] == [True, True, True]
    assert hierarchy.remove("/a") is False
    assert hierarchy.children("/a") == []


def test_a_busy_cgroup_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(OSError, match="not empty"):
        MemoryHierarchy("v1", str(tmp_path)).remove("/a", patience_seconds=0.02)


def test_v1_residual_leaves_out_own_and_live(tmp_path: Path) -> None:
    (tmp_path / "memory.stat").write_text("cache 5\nrss 1\ntotal_cache 105\ntotal_rss 11\ntotal_swap 7\n")
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "memory.stat").write_text("total_cache 40\ntotal_rss 10\n")
    hierarchy = MemoryHierarchy("v1", str(tmp_path))
    assert dead_bytes(hierarchy, "/") == 105 - 5 - 40 + 11 - 1 - 10 + 7
    assert dead_count(hierarchy, "/") is None


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("nr_dying_descendants 7\nnr_dying_subsys_memory 5\n", 5),
        ("nr_dying_descendants 7\n", 7),
        ("nr_descendants 7\n", None),
        ("", None),
    ],
)
def test_v2_count_prefers_the_memory_controllers_own(tmp_path: Path, text: str, count: int | None) -> None:
    (tmp_path / "cgroup.stat").write_text(text)
    assert dead_count(MemoryHierarchy("v2", str(tmp_path)), "/") == count


@pytest.mark.parametrize(
    ("files", "written"),
    [
        (("memory.reclaim", "memory.high"), {"memory.reclaim": "1M", "memory.high": ""}),
        (("memory.high",), {"memory.high": "max"}),  # v2 before 5.19: down to nothing, and the limit taken away again
        (("memory.force_empty",), {"memory.force_empty": "0"}),
    ],
)
def test_a_cgroup_is_squeezed_by_the_lever_it_has(
    tmp_path: Path, files: tuple[str, ...], written: dict[str, str]
) -> None:
    for name in files:
        (tmp_path / name).touch()
    squeeze(str(tmp_path))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == written
