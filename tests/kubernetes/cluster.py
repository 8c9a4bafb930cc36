# SPDX-License-Identifier: Apache-2.0
"""A cluster of one real node on this machine: start, ask by kubectl, run a command on the node, stop.

`python -m tests.kubernetes.cluster [IMAGE.tar ...]` starts one and waits: to look around by hand.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from tests.kubernetes.build import Programs, ensure
from tests.kubernetes.images import workload_images
from tests.kubernetes.keeper import PREFIX, clear_leftovers, own_cgroups

TOP = Path(__file__).resolve().parents[2]
_MOST_SECONDS = 120.0


class ClusterError(Exception):
    """Why there is no cluster, or what a command of it said."""


class Cluster:
    """`with Cluster.started() as cluster`. Whatever happens to this process, the keeper clears up."""

    def __init__(self, programs: Programs, folder: Path, keeper: subprocess.Popen[str], init: int) -> None:
        self.programs, self.folder = programs, folder
        self._keeper = keeper
        self._init = init
        self.seconds_to_ready = 0.0

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
            "kubectl": str(programs.kubectl),
            "images": [str(path) for path in (*workload_images(folder / "images"), *images)],
            "systemd": False,
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
        if self._keeper.wait(_MOST_SECONDS):
            raise ClusterError(f"the keeper ended with {self._keeper.returncode}")

    def command(self, *words: str) -> list[str]:
        """As run on the node: in its namespaces."""
        return ["nsenter", f"--target={self._init}", "--mount", "--net", "--pid", f"--wdns={TOP}", *words]

    def run(self, *words: str, check: bool = True, **more: Any) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words), check=False, capture_output=True, text=True, errors="replace", timeout=120, **more
        )
        if check and done.returncode:
            raise ClusterError(f"{' '.join(words)[:200]} ended with {done.returncode}: {done.stderr or done.stdout}")
        return done

    @property
    def environment(self) -> dict[str, str]:
        """For programs that call kubectl by its name."""
        path = f"{self.programs.kubectl.parent}:{os.environ['PATH']}"
        return {**os.environ, "KUBECONFIG": str(self.folder / "conf/admin.kubeconfig"), "PATH": path}

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        program = [str(self.programs.kubectl), *words]
        return self.run(*program, check=check, input=stdin, env=self.environment).stdout

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def wait(self, what: str, holds: Callable[[], Any], seconds: float = _MOST_SECONDS) -> Any:
        """Until it is true; what it was then."""
        ends = time.monotonic() + seconds
        while not (found := holds()):
            if time.monotonic() > ends:
                raise ClusterError(f"not within {seconds:.0f} s: {what}")
            time.sleep(0.2)
        return found


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
