# SPDX-License-Identifier: Apache-2.0
"""Run by a Python that has Ray: a cluster of two nodes on this machine, and a question asked of it.

two_nodes.py ARCHIVE PIECE WORDS...: one JSON line with what `profile fleet WORDS --engine ray --json` said, the seconds that it
took, and how many tasks each node ran. PIECE: samples of a task, at most; 0 as usual.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from zombiescope.cli.main import main
from zombiescope.profiler.archive import asking
from zombiescope.profiler.archive.counting import count_piece

_MEMORY = 100 << 20
os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")  # a busy machine starts a node in more than Ray's 30 s


def follow_tasks(folder: Path) -> None:
    """Each task leaves a letter in the file of the node that it runs on."""

    def counted(asked: Any, piece: Any) -> Any:
        import ray  # noqa: PLC0415

        with (folder / f"ran-{ray.get_runtime_context().get_node_id()}").open("a") as file:
            file.write("x")
        return count_piece(asked, piece)

    vars(asking)["count_piece"] = counted


def node_of_a_cluster() -> dict[str, int]:
    """Where its agents choose their ports, it waits for them for 15 seconds and no longer: a busy machine starts them later."""
    agents = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
    with contextlib.ExitStack() as held:
        ports = [held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in agents]
    return {"num_cpus": 1, "object_store_memory": _MEMORY, **dict(zip(agents, ports, strict=True))}


def run(archive: str, words: list[str], folder: Path) -> dict[str, object]:
    from ray.cluster_utils import Cluster  # noqa: PLC0415 (it reads its surroundings when it is loaded)

    cluster = Cluster(initialize_head=True, head_node_args=node_of_a_cluster())
    try:
        cluster.add_node(**node_of_a_cluster())
        cluster.wait_for_nodes()
        follow_tasks(folder)
        said = io.StringIO()
        begun = time.monotonic()
        given = ["--archive", archive, "--engine", "ray", "--ray", cluster.address, "--json"]
        with contextlib.redirect_stdout(said):
            code = main(["profile", "fleet", *words, *given])
        seconds = time.monotonic() - begun
        ran = sorted(len(path.read_text()) for path in folder.glob("ran-*"))
        return {"code": code, "seconds": seconds, "ran": ran, "answer": json.loads(said.getvalue() or "null")}
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="r") as place:  # sockets in it have short names only
        os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_TMPDIR=place)
        asking.SAMPLES_OF_A_PIECE = int(sys.argv[2]) or asking.SAMPLES_OF_A_PIECE
        print(json.dumps(run(sys.argv[1], sys.argv[3:], Path(place))))
