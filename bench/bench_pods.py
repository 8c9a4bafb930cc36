# SPDX-License-Identifier: Apache-2.0
"""What the agent costs on a node of 250 pods with 4 containers each that come and go, beside the same agent that is not shown the
pods' log folders. Needs root.

The cgroups, their deaths and their zombies are real; the log folders are laid out as kubelet lays them out, below a root that holds
this machine's /proc and /sys. Targets as in `bench_agent.py`: at most 40 MB (VmHWM), 0.3 % of a core after its start, 120 series.
`bench_pods.py [SECONDS] [RESTARTS PER SECOND]`.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from bench.bench_agent import START_SECONDS, Watched, compile_modules
from tests.kernel.zombie_maker import HIERARCHY
from tests.server.running import free_port

PODS, CONTAINERS = 250, 4
PACE_SECONDS = 15.0
_DIGITS = "456789bcdf"
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


class Node:
    """Restarts containers at random: a cgroup dies and leaves a page, a new one is born, its log and link appear."""

    def __init__(self, var: Path, scratch: Path) -> None:
        self._random = random.Random(24)
        self._scratch = scratch
        self.top = HIERARCHY / f"zombiescope-bench-pods-{os.getpid()}"
        self._logs, self._links = var / "log/pods", var / "log/containers"
        self._logs.mkdir(parents=True)
        self._links.mkdir(parents=True)
        self._containers: dict[tuple[str, str, str], tuple[int, Path, Path]] = {}
        self._owners: dict[str, tuple[str, str, str]] = {}
        self.restarts = 0
        for number in range(PODS):
            self._pod(number)

    def _word(self, letters: str, size: int) -> str:
        return "".join(self._random.choice(letters) for _ in range(size))

    def _pod(self, number: int) -> None:
        """Twenty-five Deployments of ten pods each."""
        workload = f"app{number % 25}-5{self._word(_DIGITS, 8)}"
        name, uid = f"{workload}-{self._word(_SAFE, 5)}", str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        for index in range(CONTAINERS):
            self._start((f"team{number % 5}", name, uid), f"c{index}", 0)

    def _start(self, pod: tuple[str, str, str], container: str, restarts: int) -> None:
        namespace, name, uid = pod
        number = f"{self._random.getrandbits(256):064x}"
        folder = self._logs / f"{namespace}_{name}_{uid}" / container
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{restarts}.log").touch()
        with contextlib.suppress(FileNotFoundError):
            (folder / f"{restarts - 2}.log").unlink()
        link = self._links / f"{name}_{namespace}_{container}-{number}.log"
        link.symlink_to(folder / f"{restarts}.log")
        place = self.top / "kubepods/burstable" / f"pod{uid}" / number
        place.mkdir(parents=True)
        self._containers[uid, name, container] = (restarts, place, link)
        self._owners[uid] = pod

    def restart_one(self) -> None:
        key = self._random.choice(list(self._containers))
        restarts, place, link = self._containers[key]
        self._leave_a_page(place)
        place.rmdir()
        link.unlink()
        self.restarts += 1
        self._start(self._owners[key[0]], key[2], restarts + 1)

    def _leave_a_page(self, place: Path) -> None:
        """A child writes a file from inside: its page keeps the cgroup when it is gone."""
        child = os.fork()
        if not child:
            with contextlib.suppress(OSError):
                (place / "cgroup.procs").write_text(str(os.getpid()))
                (self._scratch / place.name).write_bytes(b"x")
            os._exit(0)
        os.waitpid(child, 0)

    def clear(self) -> None:
        for place in sorted(self.top.rglob("*"), key=lambda each: -len(each.parts)):
            if place.is_dir():
                place.rmdir()
        self.top.rmdir()


@contextlib.contextmanager
def mounted(root: Path, **more: Path) -> Iterator[Path]:
    """This machine's /proc and /sys, and `more`, below a root. Unmounted and removed as empty folders: nothing is ever deleted
    through a mount."""
    places = {"proc": Path("/proc"), "sys": Path("/sys"), **more}
    root.mkdir(parents=True)
    try:
        for name, what in places.items():
            (root / name).mkdir()
            subprocess.run(["mount", "--rbind", str(what), str(root / name)], check=True)
        yield root
    finally:
        for name in places:
            subprocess.run(["umount", "--recursive", "--lazy", str(root / name)], check=False)
            (root / name).rmdir()
        root.rmdir()


def agent(name: str, root: Path, folder: Path) -> Watched:
    port = free_port()
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    state = folder / f"state-{name.split(maxsplit=1)[0]}"
    command = [sys.executable, "-m", "zombiescope", "agent", "--listen", f"127.0.0.1:{port}", "--state", str(state)]
    return Watched(name, [*command, "--root", str(root)], f"http://127.0.0.1:{port}/metrics", environment)


def main(seconds: float, per_second: float) -> None:
    with contextlib.ExitStack() as open_ones:
        roots = Path(tempfile.mkdtemp(prefix="zombiescope-bench-roots-"))
        open_ones.callback(roots.rmdir)
        folder = Path(open_ones.enter_context(tempfile.TemporaryDirectory()))
        scratch = folder / "scratch"
        scratch.mkdir()
        compile_modules(folder)
        node = Node(folder / "var", scratch)
        shown = open_ones.enter_context(mounted(roots / "shown", var=folder / "var"))
        hidden = open_ones.enter_context(mounted(roots / "hidden"))
        ended = threading.Event()

        def churn() -> None:
            while not ended.wait(1 / per_second):
                node.restart_one()

        both = [agent("pods", shown, folder), agent("no pods", hidden, folder)]
        worker = threading.Thread(target=churn, daemon=True)
        try:
            worker.start()
            time.sleep(START_SECONDS)
            before, begun = [each.cpu_seconds() for each in both], time.monotonic()
            while time.monotonic() - begun < seconds:
                time.sleep(PACE_SECONDS)
                for each in both:
                    each.scrape()
            passed = time.monotonic() - begun
            rows = [
                (each.name, each.peak_megabytes(), 100 * (each.cpu_seconds() - was) / passed, each.series)
                for each, was in zip(both, before, strict=True)
            ]
        finally:
            ended.set()
            worker.join()
            for each in both:
                each.end()
            node.clear()
        print(f"{PODS} pods x {CONTAINERS} containers, {node.restarts:,} restarts, {passed:.0f} s after the start")
        print(f"{'':>10} {'peak MB':>9} {'% of core':>10} {'series':>7}")
        for row in rows:
            print(f"{row[0]:>10} {row[1]:>9.1f} {row[2]:>10.3f} {row[3]:>7}")
        ours, other = rows
        print(
            f"ratio: {ours[1] / other[1]:.2f} of the memory, {ours[2] / other[2]:.2f} of the CPU; targets 40 MB, 0.3 %, 120 series"
        )
        for state in folder.glob("state-pods/pods.json"):
            print(f"names on disk: {state.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    if os.environ.get("ZOMBIESCOPE_BENCH_INSIDE") != "1":
        inside = os.environ | {"ZOMBIESCOPE_BENCH_INSIDE": "1"}
        words = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv]
        sys.exit(subprocess.run(words, env=inside, check=False).returncode)
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0, float(sys.argv[2]) if len(sys.argv) > 2 else 5.0)
