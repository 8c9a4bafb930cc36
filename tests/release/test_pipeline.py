# SPDX-License-Identifier: Apache-2.0
"""The examples for pipelines with the one file of the release in the place they name: valid, and every step run as it stands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.gate.test_examples import CI, DOCKER, candidate, parsed, run, steps_of, valid
from tests.release.conftest import one
from tests.release.page import fences
from tests.unit.trees import plant

MANIFEST = """\
kind: DaemonSet
metadata: {name: n}
spec:
  template:
    spec:
      containers:
        - {name: c, image: calico/node}
"""
SCHEMAS = {"github-actions.yml": "github-workflows.json", "gitlab-ci.yml": "gitlab-ci.json"}


@pytest.fixture
def workplace(release: Path, tmp_path: Path) -> Path:
    """A checkout that has built its candidate; Docker and sudo played by scripts."""
    one(release, "zombiescope-x86_64")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/release").symlink_to(release)
    shutil.copy(CI / "gate.toml", tmp_path)
    plant(tmp_path, {"deploy/node.yaml": MANIFEST, "bin/docker": DOCKER, "bin/sudo": '#!/bin/sh\nexec "$@"\n'})
    for name in ("docker", "sudo"):
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("guilty", [False, True])
@pytest.mark.parametrize("name", SCHEMAS)
def test_every_step_with_the_file_of_the_release(name: str, guilty: bool, workplace: Path) -> None:
    image = candidate(workplace, guilty=guilty)
    shutil.copy(image, workplace / "candidate.tar")
    (placed,) = fences("pipeline")
    assert run(placed.script, workplace, image) == (2 if guilty else 0), "the page puts it there"
    document = parsed((CI / name).read_text())
    valid(document, SCHEMAS[name])
    statuses = [run(step, workplace, image) for step in steps_of(document)]
    assert len(statuses) >= 2
    assert {status for status in statuses if status} == ({2} if guilty else set())
