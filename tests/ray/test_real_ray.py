# SPDX-License-Identifier: Apache-2.0
"""A real Ray, on demand (`make test-ray`): one job that goes well, one that raises, one whose actor's process dies. What its
dashboard tells is what `--events` reads. Not in CI: 70 MB of wheel, and most of a minute."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.running import free_port, wait_for

from zombiescope.facts.history import ACTOR_FAILURE, JOB_FAILURE, JOB_SUCCESS
from zombiescope.pipeline.timeline import read_source

RAY = Path(os.environ.get("ZOMBIESCOPE_RAY", "")) / "bin"
JOBS = {
    "good.py": "import ray\nray.init()\nassert ray.get(ray.remote(lambda: 1).remote()) == 1\n",
    "bad.py": "raise RuntimeError('the training step failed')\n",
    "actor.py": (
        "import os, ray\nray.init()\n@ray.remote\nclass Trainer:\n    def step(self): os._exit(1)\n"
        "ray.get(Trainer.remote().step.remote())\n"
    ),
}
SURROUNDINGS = {**os.environ, "PATH": f"{RAY}:{os.environ['PATH']}", "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[str]:
    if not (RAY / "ray").exists():
        pytest.skip("needs a Ray: make test-ray")
    for name, text in JOBS.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    port = free_port()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # sockets in it have short names only
        command = [
            str(RAY / "ray"), "start", "--head", "--block", f"--port={free_port()}", "--dashboard-host=127.0.0.1",
            f"--dashboard-port={port}", "--num-cpus=2", "--object-store-memory=80000000", f"--temp-dir={folder}",
        ]  # fmt: skip
        process = subprocess.Popen(command, env=SURROUNDINGS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            address = f"http://127.0.0.1:{port}"
            assert wait_for(lambda: urllib.request.urlopen(f"{address}/api/jobs/", timeout=5).status == 200)
            yield address
        finally:
            process.terminate()
            process.wait(60)


def test_jobs_and_actors_are_read_as_they_ended(dashboard: str, tmp_path: Path) -> None:
    begun = time.time()
    for name in JOBS:
        words = ["job", "submit", "--address", dashboard, "--working-dir", str(tmp_path), "--", "python", name]
        subprocess.run([str(RAY / "ray"), *words], env=SURROUNDINGS, capture_output=True, check=False, timeout=180)
    marks = read_source(dashboard)
    assert [mark.what for mark in marks if mark.what != ACTOR_FAILURE] == [JOB_SUCCESS, JOB_FAILURE, JOB_FAILURE]
    assert [mark.what for mark in marks if "Trainer" in mark.detail] == [ACTOR_FAILURE]
    assert all(begun <= mark.at <= time.time() for mark in marks)
    done = subprocess.run(
        [sys.executable, "-m", "zombiescope", "verify", "--since", "1s", "--window", "5", "--events", dashboard],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert "job success" in done.stdout, done.stdout + done.stderr
