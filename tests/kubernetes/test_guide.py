# SPDX-License-Identifier: Apache-2.0
"""The commands of the guides that need a cluster, literally and in order, on the node of the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes import asking
from tests.kubernetes.any_cluster import TOP
from tests.kubernetes.build import PROGRAM
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.settings import NODE, SERVICE_ADDRESS
from tools.fences import Fence, documents, fences_of

FENCES = [fence for document in documents() for fence in fences_of(document) if fence.tier == "kubernetes"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader has: a clone."""
    place = tmp_path_factory.mktemp("clone")
    (place / "deploy").symlink_to(TOP / "deploy")
    (place / "bin").mkdir()
    (place / "bin/zombiescope").symlink_to(PROGRAM)
    (place / "bin/sudo").write_text('#!/bin/sh\nexec "$@"\n')  # the reader is root, and keeps its surroundings
    (place / "bin/sudo").chmod(0o755)
    return place


class Reader:
    """Types a command on the node, and may interrupt it."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        path = f"{folder}/bin:{TOP}/deploy/kubectl:{Path(sys.executable).parent}:{cluster.environment['PATH']}"
        self._environment = {**cluster.environment, "PATH": path, "KUBERNETES_SERVICE_HOST": SERVICE_ADDRESS}

    def types(self, fence: Fence) -> tuple[int, str]:
        words = self._cluster.command("sh", "-euc", f"cd {self._folder}\n{fence.script}")
        running = subprocess.Popen(
            words,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        if fence.stop_seconds:
            time.sleep(fence.stop_seconds)
            os.killpg(running.pid, signal.SIGINT)
        try:
            said, _ = running.communicate(timeout=fence.limit_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            said = running.communicate()[0] + f"\nnot done within {fence.limit_seconds:.0f} s"
        return running.returncode, said


@pytest.fixture(scope="module")
def reader(cluster: Cluster, folder: Path) -> Iterator[Reader]:
    asking.give_account(cluster)
    yield Reader(cluster, folder)
    asking.take_account(cluster)


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: fence.name)
def test_a_command_does_what_the_guide_says(fence: Fence, reader: Reader, folder: Path) -> None:
    began = time.monotonic()
    code, said = reader.types(fence)
    print(f"{fence.name}: {time.monotonic() - began:.1f} s\n{said[-1500:]}")
    assert code in ((0, 130, -2) if fence.stop_seconds else fence.exits), f"{fence.script}\n{said[-4000:]}"
    if "zombiescope page" in fence.script:
        assert "Forwarding from 127.0.0.1:9753" in said
    if "zombiescope bundle" in fence.script:
        assert (folder / "bundle.tar.gz").stat().st_size > 1000
        assert "pressure" in said.lower()
    if "fleet nodes --from -" in fence.script:
        assert NODE in said  # not by the name of the pod that was asked
        assert "cannot" not in said


def test_the_guide_leaves_nothing(cluster: Cluster) -> None:
    assert asking.agent_pod(cluster) == {}
    assert asking.CONDITION not in asking.conditions(cluster)
