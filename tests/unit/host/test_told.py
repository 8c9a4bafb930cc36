# SPDX-License-Identifier: Apache-2.0
"""Names that a node is told: in a pod /proc says the pod's name, and no file says the cluster's."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.build import ScriptedHost, node_files

from zombiescope.facts.cgroups import Identity
from zombiescope.host.known_names import read_known_names
from zombiescope.host.live import LiveHost, ToldHost, cluster_of, told
from zombiescope.host.recorder import RecordingHost
from zombiescope.host.scrub import Scrubber
from zombiescope.pipeline.opening import open_host
from zombiescope.presenters.document import render_host
from zombiescope.probes.readers.node import read_identity

NODE, CLUSTER = "ZOMBIESCOPE_AGENT_KUBERNETES_NODE", "ZOMBIESCOPE_AGENT_KUBERNETES_CLUSTER"


@pytest.fixture
def mounted(tmp_path: Path) -> LiveHost:
    """A host below another root; what it calls itself is the name of the pod that reads it."""
    for path, text in node_files().items():
        file = tmp_path / path.decode()[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)
    (tmp_path / "proc/sys/kernel/hostname").write_text("zombiescope-x7v2p\n")
    return LiveHost(str(tmp_path).encode())


def test_a_node_in_a_pod_has_its_own_name_and_its_cluster(mounted: LiveHost) -> None:
    assert read_identity(mounted).name == "zombiescope-x7v2p"
    found = read_identity(told(mounted, "n1", "prod-eu-1"))
    assert (found.name, found.cluster, found.kernel) == ("n1", "prod-eu-1", "6.1.0-built")
    assert render_host(found)["cluster"] == "prod-eu-1"


def test_without_a_cluster_a_document_has_no_such_field() -> None:
    assert set(render_host(Identity("h", "k", "b", 1.0))) == {"name", "kernel", "boot_id", "uptime_seconds"}


def test_this_host_keeps_its_own_name() -> None:
    here = LiveHost()
    assert told(here, "n1", "") is here
    both = told(here, "n1", "prod")
    assert (read_identity(both).name, cluster_of(both)) == (read_identity(here).name, "prod")
    assert both.label == here.label


def test_names_of_strangers_are_shown_and_bounded() -> None:
    assert ToldHost(b"/", "", "a\n\x1b[31m").cluster == r"a\x0a\x1b[31m"
    assert len(ToldHost(b"/", "", "a" * 9999).cluster) == 253


def test_a_recording_does_not_keep_them(mounted: LiveHost) -> None:
    host = told(mounted, "n1", "prod-eu-1")
    recording = RecordingHost(host, Scrubber(read_known_names(host)))
    assert read_identity(recording).cluster == "prod-eu-1"
    kept = repr(recording.answers)
    assert "hostname" in kept
    assert "prod-eu-1" not in kept
    assert "'n1" not in kept
    assert cluster_of(ScriptedHost({})) == ""


def test_a_command_is_told_by_its_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLUSTER, "prod-eu-1")
    monkeypatch.setenv(NODE, "n1")
    assert cluster_of(open_host(None)) == "prod-eu-1"
    monkeypatch.setenv("ZOMBIESCOPE_AGENT_NO_SUCH_KEY", "1")  # said by whoever needs a value
    assert cluster_of(open_host(None)) == ""
