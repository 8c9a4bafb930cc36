# SPDX-License-Identifier: Apache-2.0
"""What the plan foretells of a Deployment's end, and what went: `python -m bench.bench_foretold [RESTARTS]` as root.

On the test cluster, seven Deployments of different shapes loop side by side; each is scaled to 0, one by one, right after a plan.
Only zombies that were there before are looked for, by id. Those that a page of the disk holds beside are counted apart: they are
said to stay until reclaim takes that page, and how many of them went by themselves before is shown.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import NamedTuple

from tests.kubernetes.any_cluster import TOP, AnyCluster, ClusterError
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.workloads import SHOP, Object, crashing_deployment, namespace

RESULTS = TOP / "build/foretold"
"""Each zombie with what held it before, and whether it went: to see what was foretold wrongly."""
RESTARTS = 4
_QUIET_LOOKS = 5
"""So often in a row the same are gone: kubelet removes what pods had in its own time."""
_MOST_SECONDS = 90.0
_DRIFT_SECONDS = 30.0


class Shape(NamedTuple):
    name: str
    replicas: int
    containers: int
    files: int
    volume: Object | None
    """Where the files go; None: into the container's own layer."""
    half: Object | None = None
    """Where those of every second container go instead."""


DISK: Object = {"emptyDir": {}}
MEMORY: Object = {"emptyDir": {"medium": "Memory"}}
NODE: Object = {"hostPath": {"path": "/var/lib/kubelet/foretold", "type": "DirectoryOrCreate"}}
SHAPES = (
    Shape("few-files", 2, 8, 4, DISK),
    Shape("many-files", 2, 8, 64, DISK),
    Shape("one-pod", 1, 8, 16, DISK),
    Shape("in-memory", 2, 8, 16, MEMORY),
    Shape("disk-and-memory", 2, 8, 16, DISK, MEMORY),
    Shape("of-the-node", 1, 8, 16, NODE),
    Shape("own-layer", 1, 8, 16, None),
)


class Row(NamedTuple):
    shape: str
    zombies: int
    foretold: int | None
    gone: int
    """Of those that no page of the disk's own holds beside: what the plan speaks of."""
    of_disk: int
    """Those that such a page holds beside the files: the plan says that they stay until reclaim takes it."""
    of_disk_gone: int
    by_itself: float
    """What went of those in half a minute before, while nothing was done."""


def deployment(shape: Shape) -> Object:
    made = crashing_deployment(shape.name, shape.replicas, shape.containers)
    pod = made["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "data", **(shape.volume or DISK)}, {"name": "half", **(shape.half or DISK)}]
    for at, container in enumerate(pod["containers"]):
        container["args"] = ["crash", "/data" if shape.volume else "/", str(shape.files)]
        if shape.half and at % 2:
            container["volumeMounts"][0]["name"] = "half"
        if shape.volume is None:
            del container["volumeMounts"]
    return made


def restarts(cluster: AnyCluster, name: str) -> list[int]:
    pods = cluster.get("pods", "--namespace", SHOP, "--selector", f"app={name}")["items"]
    return [each["restartCount"] for pod in pods for each in pod["status"].get("containerStatuses", [])]


def has_looped(cluster: AnyCluster, name: str, least: int) -> bool:
    return min(restarts(cluster, name) or [0]) >= least


def zombies(cluster: AnyCluster) -> dict[int, Object]:
    said = cluster.run(cluster.program, "autopsy", "--json", "--limit", "0").stdout
    return {each["id"]: each for each in json.loads(said)["zombies"]}


def foretold(cluster: AnyCluster, left: set[str]) -> tuple[str, int | None]:
    """By the plan as it is now: the first of our Deployments in it."""
    plan = json.loads(cluster.run(cluster.program, "plan", "--json", "--seconds", "1").stdout)
    for step in plan["steps"]:
        name = step["name"].rpartition("/")[2]
        if step["name"].startswith("stop-workload:") and name in left:
            return name, step["expected"]["zombies_freed"]
    raise ClusterError(f"no step about one of {', '.join(sorted(left))}: {[step['name'] for step in plan['steps']]}")


def is_of_disk(zombie: Object) -> bool:
    return any(pin["fstype"] == "bdev" for pin in zombie["pins"])


def held_by_disk(seen: dict[int, Object], name: str) -> set[int]:
    return {number for number, each in seen.items() if each["maker"] == maker_of(name) and is_of_disk(each)}


def maker_of(name: str) -> str:
    return f"workload:{SHOP}/Deployment/{name}"


def drift(cluster: AnyCluster, name: str) -> float:
    """What goes of a Deployment's zombies while nothing is done."""
    before = held_by_disk(zombies(cluster), name)
    time.sleep(_DRIFT_SECONDS)
    after = set(zombies(cluster))
    return len(before - after) / len(before) if before else 0.0


def scaled_down(cluster: AnyCluster, name: str, told: int | None, by_itself: float) -> Row:
    before = zombies(cluster)
    dead = {number for number, each in before.items() if each["maker"] == maker_of(name)}
    of_disk = held_by_disk(before, name)
    cluster.kubectl("-n", SHOP, "scale", f"deployment/{name}", "--replicas=0")
    cluster.wait("its pods are gone", lambda: not restarts(cluster, name))
    looks, left = [-1], set(before)
    ends = time.monotonic() + _MOST_SECONDS
    while time.monotonic() < ends and not (len(looks) > _QUIET_LOOKS and len(set(looks[-_QUIET_LOOKS:])) == 1):
        time.sleep(1)
        left = set(zombies(cluster))
        looks.append(len(dead - left))
    seen = [{**before[number], "gone": number not in left} for number in sorted(dead)]
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(seen, indent=1))
    gone = dead - left
    return Row(name, len(dead), told, len(gone - of_disk), len(of_disk), len(gone & of_disk), by_itself)


def shown(row: Row) -> str:
    ratio = f"{row.gone / row.foretold:.2f}" if row.foretold else "-"
    told = "-" if row.foretold is None else str(row.foretold)
    first = f"{row.shape:<16} {row.zombies:>7} {told:>9} {row.gone:>6} {ratio:>6}"
    return f"{first} {row.of_disk:>8} {row.of_disk_gone:>6} {row.by_itself:>9.1%}"


def total(rows: list[Row]) -> Row:
    """Of those that were foretold at all."""
    known = [row for row in rows if row.foretold is not None]
    sums = (sum(numbers) for numbers in zip(*((row[1], row[2] or 0, *row[3:6]) for row in known), strict=True))
    zombies, told, gone, of_disk, of_disk_gone = sums
    return Row("all", zombies, told, gone, of_disk, of_disk_gone, 0.0)


def main() -> None:
    least = int(sys.argv[1]) if len(sys.argv) > 1 else RESTARTS
    rows: list[Row] = []
    with Cluster.started() as cluster:
        cluster.apply(namespace(), *map(deployment, SHAPES))
        for shape in SHAPES:
            cluster.wait(shape.name, partial(has_looped, cluster, shape.name, least), 900)
        left = {shape.name for shape in SHAPES}
        first = f"{'shape':<16} {'zombies':>7} {'foretold':>9} {'gone':>6} {'ratio':>6}"
        print(f"{first} {'of disk':>8} {'gone':>6} {'by itself':>9}", flush=True)
        while left:
            by_itself = {name: drift(cluster, name) for name in [foretold(cluster, left)[0]]}
            name, told = foretold(cluster, left)
            left.remove(name)
            rows.append(scaled_down(cluster, name, told, by_itself.get(name, 0.0)))
            print(shown(rows[-1]), flush=True)
    print(shown(total(rows)))


if __name__ == "__main__":
    main()
