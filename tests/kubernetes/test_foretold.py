# SPDX-License-Identifier: Apache-2.0
"""What goes with the pods of a Deployment is foretold by the plan, and seen by id when they are gone."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.kubernetes import asking
from tests.kubernetes.any_cluster import ClusterError
from tests.kubernetes.build import PROGRAM
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.leaving import MAKER, NAME, NAMESPACE, restarts
from tests.kubernetes.settings import SERVICE_ADDRESS, SOCKET
from tests.kubernetes.workloads import Object

RESTARTS = 3


def zombies(cluster: Cluster) -> dict[int, Object]:
    said = cluster.run(str(PROGRAM), "autopsy", "--json", "--limit", "0").stdout
    return {each["id"]: each for each in json.loads(said)["zombies"]}


def is_of_disk(zombie: Object) -> bool:
    return any(pin["fstype"] == "bdev" for pin in zombie["pins"])


@pytest.fixture(scope="module")
def leaving(cluster: Cluster) -> Iterator[None]:
    """A Deployment in a loop, until it is gone. It began with the cluster: conftest.py."""
    cluster.wait("restarts", lambda: (told := restarts(cluster)) and min(told) >= RESTARTS)
    yield
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
def account(cluster: Cluster) -> Iterator[None]:
    asking.give_account(cluster)
    yield
    asking.take_account(cluster)


def why_it_loops(cluster: Cluster, *words: str) -> str:
    """As the doctor says it on the node, who may ask whom it is told to."""
    surroundings = {**os.environ, "KUBERNETES_SERVICE_HOST": SERVICE_ADDRESS}
    told = cluster.run(str(PROGRAM), "doctor", "--json", "--seconds", "1", *words, env=surroundings).stdout
    found = json.loads(told)
    assert not [gap for gap in found["gaps"] if gap["fact"] == "pods"]
    return json.dumps(next(each for each in found["findings"] if each["id"] == "looping-container"))


@pytest.mark.usefixtures("leaving", "account")
def test_who_is_asked_knows_how_it_ended(cluster: Cluster) -> None:
    asked: list[tuple[str, ...]] = [(), ("--cri-socket", SOCKET), ("--kube-api",)]
    with ThreadPoolExecutor(len(asked)) as beside:
        by_itself, runtime, api = beside.map(lambda words: why_it_loops(cluster, *words), asked)
    for said in (by_itself, runtime, api):
        assert f"Deployment {NAMESPACE}/{NAME}" in said
    assert "exit code" not in by_itself  # log folders do not tell
    assert "exit code 1" in runtime
    assert "exit code 1" in api


@pytest.mark.usefixtures("leaving")
def test_what_goes_with_the_pods_is_foretold(cluster: Cluster) -> None:
    """Within a tenth, or one zombie where they are few. Reclaim may take pages of the disk's own meanwhile, which has nothing to do
    with the pods: zombies that were said to stay, and went, are not counted as far as a control group went as well."""
    plan = json.loads(cluster.run(str(PROGRAM), "plan", "--json", "--seconds", "1").stdout)
    step = next(each for each in plan["steps"] if each["name"] == f"stop-workload:{MAKER.removeprefix('workload:')}")
    command = f"kubectl -n {NAMESPACE} scale deployment/{NAME} --replicas=0"
    assert command in step["change"]["commands"]
    expected = step["expected"]["zombies_freed"]
    assert expected is not None
    before = zombies(cluster)
    dead = {number for number, each in before.items() if each["maker"] == MAKER}
    staying = {number for number, each in before.items() if each["maker"] != MAKER and is_of_disk(each)}
    cluster.kubectl(*command.split()[1:])
    cluster.wait("its pods are gone", lambda: not restarts(cluster))
    seen = [-1]

    def stands_still() -> bool:
        """kubelet removes what the pods had in its own time."""
        seen.append(len(dead - set(zombies(cluster))))
        return seen[-1] >= 0.9 * expected and seen[-1] == seen[-2]

    with contextlib.suppress(ClusterError):
        cluster.wait("what was foretold is gone", stands_still, 30)
    reclaimed = len(staying - set(zombies(cluster))) / len(staying) if staying else 0.0
    allowed = max(0.1 * expected, 1) + reclaimed * (len(dead) - expected)
    print(
        f"foretold {expected} of {len(dead)}, gone {seen[-1]}; of {len(staying)} others {reclaimed:.0%} went by reclaim"
    )
    assert expected - max(0.1 * expected, 1) <= seen[-1] <= expected + allowed
