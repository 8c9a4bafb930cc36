# SPDX-License-Identifier: Apache-2.0
"""What goes with the pods of a Deployment is foretold by the plan, and seen by id when they are gone."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator

import pytest
from tests.kubernetes import asking
from tests.kubernetes.cluster import Cluster, ClusterError
from tests.kubernetes.conftest import PROGRAM
from tests.kubernetes.settings import SERVICE_ADDRESS, SOCKET
from tests.kubernetes.workloads import SHOP, crashing_deployment, namespace

NAME = "leaving"
MAKER = f"workload:{SHOP}/Deployment/{NAME}"
RESTARTS = 3


def restarts(cluster: Cluster) -> list[int]:
    pods = cluster.get("pods", "--namespace", SHOP, "--selector", f"app={NAME}")["items"]
    return [each["restartCount"] for pod in pods for each in pod["status"].get("containerStatuses", [])]


def ids(cluster: Cluster, *words: str) -> set[int]:
    said = cluster.run(str(PROGRAM), "autopsy", "--json", "--limit", "0", *words).stdout
    return {each["id"] for each in json.loads(said)["zombies"]}


@pytest.fixture(scope="module")
def leaving(cluster: Cluster) -> Iterator[None]:
    """A Deployment in a loop, until it is gone."""
    cluster.apply(namespace(), crashing_deployment(NAME, 1, 4))
    cluster.wait("restarts", lambda: (told := restarts(cluster)) and min(told) >= RESTARTS)
    yield
    cluster.kubectl("delete", "namespace", SHOP)


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
@pytest.mark.parametrize("asked", [("--cri-socket", SOCKET), ("--kube-api",)], ids=["runtime", "api"])
def test_who_is_asked_knows_how_it_ended(cluster: Cluster, asked: tuple[str, ...]) -> None:
    assert "exit code" not in why_it_loops(cluster)
    said = why_it_loops(cluster, *asked)
    assert f"Deployment {SHOP}/{NAME}" in said
    assert "exit code 1" in said


@pytest.mark.usefixtures("leaving")
def test_what_goes_with_the_pods_is_foretold(cluster: Cluster) -> None:
    """Within a tenth; the disk's own pages about the files may go with them or stay, so no more than was said to be possible."""
    plan = json.loads(cluster.run(str(PROGRAM), "plan", "--json", "--seconds", "1").stdout)
    step = next(each for each in plan["steps"] if each["name"] == f"stop-workload:{MAKER.removeprefix('workload:')}")
    command = f"kubectl -n {SHOP} scale deployment/{NAME} --replicas=0"
    assert command in step["change"]["commands"]
    expected, most = step["expected"]["zombies_freed"], step["expected"]["up_to"]
    dead = ids(cluster, "--maker", MAKER)
    assert expected is not None
    cluster.kubectl(*command.split()[1:])
    cluster.wait("its pods are gone", lambda: not restarts(cluster))
    seen = [-1]

    def stands_still() -> bool:
        """kubelet removes what the pods had in its own time."""
        seen.append(len(dead - ids(cluster)))
        return seen[-1] >= 0.9 * expected and seen[-1] == seen[-2]

    with contextlib.suppress(ClusterError):
        cluster.wait("what was foretold is gone", stands_still, 30)
    print(f"foretold {expected} to {most} of {len(dead)}, gone {seen[-1]}")
    assert 0.9 * expected <= seen[-1] <= max(1.1 * expected, most) + 1
