# SPDX-License-Identifier: Apache-2.0
"""The image as a runtime would start it, in a machine of its architecture: its layer, user, environment and a read-only root.
On demand: `make test-image-machines`. There is no runtime in the machine: chroot and a read-only mount do the same."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.any_cluster import TOP
from tests.kubernetes.build import PROGRAM
from tests.kubernetes.conftest import refuse
from tests.kubernetes.test_image import blobs, read
from tests.vm.build import Store, say
from tests.vm.cells import cell_named
from tests.vm.machine import Outcome, run_job
from tools.image.__main__ import write_image

RESULTS = TOP / "build/image-machines"
CELLS = {"x86_64": "6.1-v2", "aarch64": "6.12-arm64"}
TIMEOUT_SECONDS = 1200
RUN = """#!/bin/sh
set -e
mkdir /image
tar xf layer -C /image
mkdir /image/proc /image/sys
python3 -c 'from in_machine import bring_up; bring_up("lo", "127.0.0.1", "255.0.0.0")'
mount --bind /image /image
mount -o remount,bind,ro /image
for name in proc sys; do mount --rbind /$name /image/$name; done
if touch /image/tmp/x 2>/dev/null; then echo 'its root can be written'; exit 1; fi
as_said() {{ env -i {environment} /usr/sbin/chroot --userspec={user}:{group} --groups= /image {entry} "$@"; }}
{{ exec env -i {environment} /usr/sbin/chroot --userspec={user}:{group} --groups= /image {entry} {command}; }} >/out/agent 2>&1 &
agent=$!
ask='import sys, urllib.request as r; print(r.urlopen("http://127.0.0.1:9753/metrics", timeout=60).read().decode())'
until python3 -c "$ask" >/out/metrics 2>/dev/null; do kill -0 $agent; sleep 1; done
grep -E '^(Uid|CapEff)' /proc/$agent/status >/out/status-of-agent
as_said --version >/out/version
as_said scan --json >/out/scan.json
kill $agent
wait $agent
"""
pytestmark = [
    pytest.mark.on_demand,
    pytest.mark.skipif(not os.environ.get("ZOMBIESCOPE_IMAGE_MACHINES"), reason="make test-image-machines"),
]


def staged(job: Path, architecture: str) -> Path:
    """The image's own layer and what its configuration says."""
    shutil.rmtree(job, ignore_errors=True)
    job.mkdir(parents=True)
    write_image(PROGRAM.parent, job / "image.tar", [architecture])
    files = blobs(job / "image.tar")
    (manifest,) = json.loads(read(files, json.loads(files["index.json"])["manifests"][0]))["manifests"]
    told = json.loads(read(files, manifest))
    config: dict[str, Any] = json.loads(read(files, told["config"]))["config"]
    user, group = config["User"].split(":")
    (job / "layer").write_bytes(gzip.decompress(read(files, told["layers"][0])))  # the machine has no gzip
    script = RUN.format(
        environment=shlex.join(config["Env"]),
        user=user,
        group=group,
        entry=shlex.join(config["Entrypoint"]),
        command=shlex.join(config["Cmd"]),
    )
    (job / "run").write_text(script)
    (job / "run").chmod(0o755)
    (job / "image.tar").unlink()
    shutil.copy(TOP / "tests/fleet_real/in_machine.py", job)
    return job


@pytest.fixture(scope="module", params=CELLS)
def outcome(request: pytest.FixtureRequest) -> Outcome:
    if not PROGRAM.with_name(f"zombiescope-{request.param}").exists():
        refuse(f"no one file for {request.param}: make onefile")
    cell, store = cell_named(CELLS[request.param]), Store()
    store.ensure([cell.image], [cell.kernel_part])
    job = staged(RESULTS / f"job-{request.param}", request.param)
    done = run_job(store, cell, job, RESULTS / request.param, TIMEOUT_SECONDS)
    say(f"image of {request.param} in {cell.name}: status {done.status} in {done.cost()}")
    assert done.status == 0, f"{done.reason}\n{done.log()[-4000:]}"
    return done


def test_its_agent_serves_metrics_as_nobody(outcome: Outcome) -> None:
    lines = (outcome.folder / "metrics").read_text().splitlines()
    found = {line.rsplit(" ", 1)[0]: line.rsplit(" ", 1)[1] for line in lines if line and not line.startswith("#")}
    assert float(found["zombiescope_memcg_counted"]) >= 1
    status = dict(line.split(":\t", 1) for line in (outcome.folder / "status-of-agent").read_text().splitlines())
    assert set(status["Uid"].split()) == {"65532"}
    assert int(status["CapEff"], 16) == 0


def test_its_command_answers(outcome: Outcome) -> None:
    assert (outcome.folder / "version").read_text().startswith("zombiescope, version ")
    scan = json.loads((outcome.folder / "scan.json").read_text())
    assert scan["memcg"]["hierarchy"] == "v2"
