# SPDX-License-Identifier: Apache-2.0
"""A cluster of one real node on this machine: start, ask by kubectl, run a command on the node, stop.

`python -m tests.kubernetes.cluster [IMAGE.tar ...]` starts one and waits: to look around by hand.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tests.kubernetes.any_cluster import MOST_SECONDS, TOP, AnyCluster, ClusterError, said
from tests.kubernetes.build import PROGRAM, Programs, ensure
from tests.kubernetes.images import workload_images
from tests.kubernetes.keeper import PREFIX, clear_leftovers, own_cgroups


class Cluster(AnyCluster):
    """`with Cluster.started() as cluster`. Whatever happens to this process, the keeper clears up."""

    def __init__(self, programs: Programs, folder: Path, keeper: subprocess.Popen[str], init: int) -> None:
        self.programs, self.folder = programs, folder
        self._keeper = keeper
        self._init = init
        self.kubeconfig, self.program = folder / "conf/admin.kubeconfig", str(PROGRAM)

    @classmethod
    def started(cls, images: Sequence[Path] = ()) -> Cluster:
        clear_leftovers()
        if found := own_cgroups():
            raise ClusterError(f"this machine runs Kubernetes already: {found[0]} exists")
        programs = ensure()
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        folder.chmod(0o755)
        order = {
            "folder": str(folder),
            "hyper": str(programs.hyper),
            "root": str(programs.root),
            "images": [str(path) for path in (*workload_images(folder / "images"), *images)],
        }
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.kubernetes.keeper", json.dumps(order)],
            cwd=TOP,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert keeper.stdout
        told = keeper.stdout.readline
        line = told()
        while line and not line.startswith(("ready ", "failed ")):  # what ctr says when it takes an image
            line = told()
        if not line.startswith("ready "):
            raise ClusterError(line.strip() or "the node ended without a word")
        cluster = cls(programs, folder, keeper, _init_of(keeper.pid))
        cluster.seconds_to_ready = float(line.split()[1])
        return cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Returns when nothing of it is left."""
        assert self._keeper.stdin
        self._keeper.stdin.close()
        if self._keeper.wait(MOST_SECONDS):
            raise ClusterError(f"the keeper ended with {self._keeper.returncode}")

    def command(self, *words: str) -> list[str]:
        """As run on the node: in its namespaces."""
        return ["nsenter", f"--target={self._init}", "--mount", "--net", "--pid", f"--wdns={TOP}", *words]

    def run(self, *words: str, check: bool = True, **more: Any) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words), check=False, capture_output=True, text=True, errors="replace", timeout=120, **more
        )
        return said(done, check=check)

    def kubectl_done(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.run(str(self.programs.kubectl), *words, check=False, env=self.environment, **more)

    def answer(self, pod: dict[str, Any], path: str) -> str:
        address = pod["status"]["podIP"]
        return self.run("curl", "--silent", "--show-error", "--fail", f"http://{address}:9753{path}").stdout


def _init_of(keeper: int) -> int:
    """Process 1 of the node's namespaces, as this machine counts."""
    unshare = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()[0]
    return int(Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()[0])


def main() -> None:
    with Cluster.started([Path(name).absolute() for name in sys.argv[1:]]) as cluster:
        print(f"ready after {cluster.seconds_to_ready:.1f} s; in another shell, as root:\n")
        print(
            f"  export KUBECONFIG={cluster.folder}/conf/admin.kubeconfig PATH={cluster.programs.kubectl.parent}:$PATH"
        )
        print(f"  {' '.join(cluster.command('bash'))}\n\nEnter, or the end of standard input, stops it.", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
