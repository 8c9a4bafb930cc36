# SPDX-License-Identifier: Apache-2.0
"""Names of pods that are there and of pods that are gone, in an autopsy; and what is not seen one by one is no zero."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.analysis.test_autopsy import population, tmpfs, walk, zombie
from tests.unit.kube_nodes import CRASHY, UID_A, UID_B, UID_C, KubeNode, id_of

from zombiescope.agent.keep import Keeper
from zombiescope.analysis.autopsy import derive_autopsy, names_of, with_pods
from zombiescope.analysis.pod_owner import PodBook
from zombiescope.errors import UsageError
from zombiescope.facts.pods import Owner, Pod, known_pods
from zombiescope.facts.zombies import Tier
from zombiescope.host.live import LiveHost
from zombiescope.pipeline.asking_pods import read_known_pods
from zombiescope.pipeline.autopsy import Choice, chosen
from zombiescope.pipeline.mistyped import refuse_maker
from zombiescope.presenters.autopsy_text import _headline

MAKER = "workload:shop/Deployment/crashy"


def path_of(uid: str, container: str, start: int = 0) -> bytes:
    return f"/kubepods/burstable/pod{uid}/{id_of(uid, container, start)}".encode()


def known(tmp_path: Path, state: Path | None = None) -> object:
    return read_known_pods(LiveHost(str(tmp_path).encode()), "" if state is None else str(state))


def test_pods_lie_below_their_workload_and_containers_below_pods(tmp_path: Path) -> None:
    """Faults 4 and 5."""
    node = KubeNode(tmp_path, 1e9)
    node.container("shop", CRASHY, UID_A, "c0", restarts=1)
    node.container("shop", "crashy-7d4b9c8f6-b7z5w", UID_B, "c0")
    names = read_known_pods(LiveHost(str(tmp_path).encode()), "")
    paths = [path_of(UID_A, "c0", 1), path_of(UID_A, "c0", 0), path_of(UID_B, "c0"), path_of(UID_C, "x")]
    dead = walk(*(zombie(number, path, tmpfs()) for number, path in enumerate(paths)))
    found = with_pods(derive_autopsy(dead, population(4), None, names), names)
    first, other = found.totals.by_maker
    assert (first.maker, first.zombies, first.is_guess) == (MAKER, 3, True)
    assert [(pod.name, pod.zombies, dict(pod.containers)) for pod in first.pods] == [
        (f"shop/{CRASHY}", 2, {"c0": 1, "": 1}),
        ("shop/crashy-7d4b9c8f6-b7z5w", 1, {"c0": 1}),
    ]
    assert (other.maker, other.zombies) == (f"pod:{UID_C}", 1)


def test_names_outlive_their_pods_in_the_state_folder(tmp_path: Path) -> None:
    node = KubeNode(tmp_path / "host", 1e9)
    node.container("shop", CRASHY, UID_A, "c0")
    state = tmp_path / "state"
    state.mkdir(mode=0o750)
    book = PodBook()
    book.take(read_known_pods(LiveHost(str(node.root).encode()), "").pods.values(), [(id_of(UID_A, "c0", 0), "c0")])
    keeper = keeper_in(state)
    keeper.keep_pods(book, 0.0)
    node.forget("shop", CRASHY, UID_A)
    found = read_known_pods(LiveHost(str(node.root).encode()), str(state))
    assert found.makers == {UID_A: MAKER}
    assert found.containers == {id_of(UID_A, "c0", 0)[:12]: "c0"}
    again = PodBook()
    keeper.recall_pods(again)
    assert again.makers == {UID_A: MAKER}


def keeper_in(state: Path) -> Keeper:
    keeper = Keeper.__new__(Keeper)
    keeper._store = SimpleNamespace(folder=str(state), trouble=None)  # type: ignore[assignment]
    keeper._pods_kept, keeper._pods_at = 0, float("-inf")
    keeper._pods_are_later, keeper._pods_trouble = False, None
    return keeper


def test_names_of_a_later_version_are_said_and_left_alone(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o750)
    later = json.dumps({"v": 2, "pods": [[UID_A, "shop", CRASHY, "Deployment", "crashy", False]], "containers": []})
    (state / "pods.json").write_text(later)
    keeper, book = keeper_in(state), PodBook()
    keeper.recall_pods(book)
    assert book.makers == {}
    gaps = dict(keeper.gaps())
    assert gaps["pods"] is not None
    assert gaps["pods"].reason == "pods.json: its format is version 2, and this program reads version 1"
    book.take([Pod(UID_A, "shop", CRASHY, Owner("Deployment", "crashy"))])
    keeper.keep_pods(book, 0.0, at_once=True)
    assert (state / "pods.json").read_text() == later


def test_a_file_of_names_without_a_version_is_the_first(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(
        json.dumps({"pods": [[UID_A, "shop", CRASHY, "Deployment", "crashy", False]], "containers": []})
    )
    assert read_known_pods(LiveHost(str(tmp_path).encode()), str(tmp_path)).makers == {UID_A: MAKER}


def test_names_that_cannot_be_kept_are_said_until_they_can(tmp_path: Path) -> None:
    state = tmp_path / "state"
    keeper, book = keeper_in(state), PodBook()
    book.take([Pod(UID_A, "shop", CRASHY, Owner("Deployment", "crashy"))])
    assert "pods" not in dict(keeper.gaps())
    keeper.keep_pods(book, 0.0)
    gap = dict(keeper.gaps())["pods"]
    assert gap is not None
    assert gap.reason.startswith("pods.json: ")
    state.mkdir(mode=0o750)
    keeper.keep_pods(book, 60.0)
    assert dict(keeper.gaps())["pods"] is None


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"pods": [[1]], "containers": []}', b"\xff" * 100])
def test_a_damaged_file_of_names_is_no_error(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "pods.json").write_bytes(text)
    assert read_known_pods(LiveHost(str(tmp_path).encode()), str(tmp_path)).makers == {}


def test_a_folder_of_names_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "pods.json").mkdir()
    assert read_known_pods(LiveHost(str(tmp_path).encode()), str(tmp_path)).makers == {}


def test_a_pod_can_be_asked_for_by_uid_by_name_and_by_workload() -> None:
    names = known_pods([Pod(UID_A, "shop", CRASHY, Owner("Deployment", "crashy"))])
    found = derive_autopsy(walk(zombie(1, path_of(UID_A, "c0")), zombie(2, b"/a/x.service")), None, None, names)
    assert names_of(found.bodies[0], names) == (MAKER, f"pod:{UID_A}", f"pod:shop/{CRASHY}")
    for glob in ("pod:*", f"pod:{UID_A}", "pod:shop/crashy-*", "workload:shop/*", "workload:*/Deployment/*"):
        refuse_maker(glob, found.bodies, known=names)
        assert chosen(found, Choice(glob), 0.0, names).totals.zombies == 1
    with pytest.raises(UsageError):
        refuse_maker("workload:other/*", found.bodies, known=names)


def test_what_cannot_be_seen_one_by_one_is_no_zero() -> None:
    """Fault 7: without BPF `--maker 'pod:*'` printed "no zombies" with a census of 600."""
    blind = walk()._replace(tier=Tier.RESIDUAL)
    found = chosen(derive_autopsy(blind, population(600), None), Choice("pod:*"), 0.0)
    assert found.totals.zombies is None
    assert _headline(found).startswith("600 zombies, but they could not be seen one by one")
    assert json.dumps(found.totals.zombies) == "null"
