# SPDX-License-Identifier: Apache-2.0
"""Root writes only where no stranger can lead it: into an image, beside units, and into its own state folder."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from tests.hostile.neighbour import NEIGHBOUR, Neighbour, zombiescope
from tests.unit.trees import TARGETS, enabled, plant

ECS = "[Service]\nExecStart=/usr/libexec/amazon-ecs-init start\nRestart=on-failure\nRestartSec=10s\n"


def image(folder: Path) -> Path:
    plant(folder, {**TARGETS, **enabled("ecs.service", ECS), **enabled("kubelet.service", "[Service]\nExecStart=/k\n")})
    return folder


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def given(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, NEIGHBOUR, NEIGHBOUR, follow_symlinks=False)


@pytest.mark.attack("have root write into a folder of theirs that lies where the units of an image are")
def test_a_folder_of_a_stranger_in_an_image(tmp_path: Path, neighbour: Neighbour) -> None:
    root = image(tmp_path / "image")
    etc = root / "etc/systemd/system"
    given(etc)
    before = names(root)
    done = zombiescope("apply", "--root", str(root), "--state", str(tmp_path / "state"), "--yes")
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"uid {NEIGHBOUR}" in done.stderr
    assert names(root) == before


@pytest.mark.attack("have root change another image, through a link of theirs on the way to the one it was given")
def test_a_link_of_a_stranger_on_the_way_to_an_image(tmp_path: Path, neighbour: Neighbour) -> None:
    """Asked for an image in the neighbour's folder, which is theirs at first and a link to one of root's by and by."""
    roots = image(tmp_path / "of root")
    before = names(roots)
    (neighbour.folder / "image").symlink_to(roots)
    os.chown(neighbour.folder / "image", NEIGHBOUR, NEIGHBOUR, follow_symlinks=False)
    words = ["--state", str(tmp_path / "state"), "--yes"]
    done = zombiescope("apply", "--root", str(neighbour.folder / "image"), *words)
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"uid {NEIGHBOUR}" in done.stderr
    assert names(roots) == before


@pytest.mark.attack("have root follow their journal: undo what was never done")
def test_a_state_folder_of_a_stranger(tmp_path: Path, neighbour: Neighbour) -> None:
    victim, action = tmp_path / "victim.conf", neighbour.folder / "state/actions/20260101T000000-abcdef"
    victim.write_text("of root")
    entry = {"v": 1, "at": time.time()}
    content = {"kind": "file", "content": "dGhlaXJz", "mode": 0o644, "uid": 0, "gid": 0, "mtime_ns": 0}
    lines = [
        {**entry, "entry": "begin", "root": "", "before": {}},
        {**entry, "entry": "write", "seq": 1, "step": 1, "do": "place_file", "path": str(victim), "before": content,
         "content": "b2Ygcm9vdA=="},
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)

    def plant_journal() -> None:
        action.mkdir(parents=True)
        (action / "journal.jsonl").write_text(text)

    assert neighbour.do(plant_journal) == 0
    done = zombiescope("undo", "--yes", "--state", str(neighbour.folder / "state"))
    assert done.returncode in (2, 4), done.stdout + done.stderr
    assert victim.read_text() == "of root"
    assert f"uid {NEIGHBOUR}" in done.stderr


@pytest.mark.attack("have root keep its journal, and copies of deleted files, where they can read and change them")
def test_a_state_folder_that_is_a_link(tmp_path: Path, neighbour: Neighbour) -> None:
    root = image(tmp_path / "image")
    before = names(root)
    (neighbour.folder / "theirs").mkdir()
    given(neighbour.folder / "theirs")
    (tmp_path / "state").symlink_to(neighbour.folder / "theirs")
    done = zombiescope("apply", "--root", str(root), "--state", str(tmp_path / "state"), "--yes")
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"uid {NEIGHBOUR}" in done.stderr
    assert names(root) == before
    assert names(neighbour.folder / "theirs") == []
