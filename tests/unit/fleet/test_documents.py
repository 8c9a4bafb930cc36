# SPDX-License-Identifier: Apache-2.0
"""Documents of many nodes: put together by node, strangers' text refused and counted, never taken for health."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from zombiescope.cli.command import JsonAnswer, PlainAnswer, TextAnswer
from zombiescope.cli.commands.fleet import fleet
from zombiescope.diagnosis.catalogue import FINDINGS
from zombiescope.diagnosis.fleet_health import judge_nodes
from zombiescope.diagnosis.thresholds import Severity, Thresholds
from zombiescope.errors import ZombiescopeError
from zombiescope.facts.fleet import Fleet, FleetNode
from zombiescope.presenters.doctor_report import told_remedy
from zombiescope.presenters.fleet_json import render_csv
from zombiescope.presenters.fleet_text import render_ansible, render_kubernetes, render_nodes_text
from zombiescope.remedies.rollout import CohortPlan, waves_of

RECORDED = Path(__file__).resolve().parents[2] / "machines/recorded"


def scan(name: str, zombies: int | None, at: str = "2026-01-02T03:04:05Z", **more: Any) -> dict[str, Any]:
    memcg = {"hierarchy": "v2", "counted": zombies, "live": 40, "zombies": zombies}
    severity = "unknown" if zombies is None else "critical" if zombies >= 10_000 else "ok"
    body = {"schema": "zombiescope.scan/1", "taken_at": at, "host": {"name": name, "kernel": "6.1"}, "memcg": memcg}
    return {**body, "severity": severity, "growth": {"per_hour": None}, "gaps": [], **more}


def send(folder: Path, *documents: dict[str, Any]) -> str:
    path = folder / "sent.jsonl"
    path.write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    return str(path)


def run(*arguments: str) -> Any:
    result: Result = CliRunner().invoke(fleet, arguments, standalone_mode=False)
    if result.exception:
        raise result.exception
    answer = result.return_value
    assert isinstance(answer, JsonAnswer | PlainAnswer | TextAnswer)
    return answer


def test_a_node_is_put_together_from_what_it_sent(tmp_path: Path) -> None:
    found = {"id": "nic-reset", "verdict": "present", "severity": "critical"}
    absent = {"id": "cpu-steal", "verdict": "absent", "severity": "ok"}
    doctor = {**scan("a", None), "schema": "zombiescope.doctor/1", "findings": [found, absent]}
    source = send(tmp_path, scan("a", 20_000), doctor, scan("b", 3))
    body = run("nodes", "--from", source, "--json").document
    first, second = body["nodes"]
    assert (first["node"], first["zombies"], first["findings"]) == ("a", 20_000, ["nic-reset"])
    assert (second["node"], second["severity"]) == ("b", "ok")
    assert first["labels"]["kernel"] == "6.1"


def test_nodes_of_two_clusters_stay_two_and_each_cluster_is_a_property(tmp_path: Path) -> None:
    sent = [scan("n1", 20_000), scan("n1", 3), scan("n2", 5)]
    for each, cluster in zip(sent, ("east", "west", "west"), strict=True):
        each["host"]["cluster"] = cluster
    (tmp_path / "zones.csv").write_text("node,zone\nn1,a\nn2,a\n")
    found = run("nodes", "--from", send(tmp_path, *sent), "--labels", str(tmp_path / "zones.csv"), "--json").document
    nodes = found["nodes"]
    assert not [gap for gap in found["gaps"] if "sent nothing" in gap["reason"]]
    assert {(each["node"], each["labels"]["cluster"], each["zombies"]) for each in nodes} == {
        ("east/n1", "east", 20_000),
        ("west/n1", "west", 3),
        ("n2", "west", 5),
    }


def test_a_node_without_a_number_is_unknown_and_never_healthy(tmp_path: Path) -> None:
    untold = scan("a", None, gaps=[{"fact": "memcg", "reason": "no memory hierarchy", "hint": ""}])
    body = run("nodes", "--from", send(tmp_path, untold), "--json").document
    (node,) = body["nodes"]
    assert (node["severity"], node["zombies"]) == ("unknown", None)
    assert node["gaps"][0]["reason"] == "no memory hierarchy"
    assert "nodes[].zombies" in {gap["fact"] for gap in body["gaps"]}


def test_strange_documents_are_counted_and_named(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(json.dumps(scan("a", 1)), encoding="utf-8")
    (tmp_path / "torn.json").write_text('{"schema": "zombie', encoding="utf-8")
    (tmp_path / "other.json").write_text('{"schema": "kubectl/1"}', encoding="utf-8")
    body = run("nodes", "--from", str(tmp_path), "--json").document
    assert [node["node"] for node in body["nodes"]] == ["a"]
    (gap,) = (gap for gap in body["gaps"] if gap["fact"] == "nodes")
    assert gap["reason"].startswith("2 of what was sent")


@pytest.mark.parametrize("gaps", [-1, 1.5, True, "memcg", {"fact": "memcg"}, [None, 7, "memcg"], [{"fact": []}]])
def test_gaps_of_another_form_say_nothing(gaps: object, tmp_path: Path) -> None:
    sent = send(tmp_path, {**scan("a", 1), "gaps": gaps})
    assert [node["node"] for node in run("nodes", "--from", sent, "--json").document["nodes"]] == ["a"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        (["--from", "x", "--prometheus", "y"], 2),
        (["--from", "/nowhere/at/all"], 3),
        (["--prometheus", "ftp://x"], 2),
        (["--prometheus", "http://user:secret@host"], 2),
        (["--prometheus", "http://host:port"], 2),
    ],
)
def test_a_wrong_source_is_an_error_with_a_hint(arguments: list[str], code: int) -> None:
    with pytest.raises(ZombiescopeError) as caught:
        run("nodes", *arguments)
    assert caught.value.exit_code == code
    assert caught.value.hint


def test_a_document_of_another_version_is_refused_and_named(tmp_path: Path) -> None:
    newer = {**scan("b", 2), "schema": "zombiescope.scan/2"}
    body = run("nodes", "--from", send(tmp_path, scan("a", 1), newer), "--json").document
    assert [node["node"] for node in body["nodes"]] == ["a"]
    assert "zombiescope.scan/2" in next(gap["reason"] for gap in body["gaps"] if gap["fact"] == "nodes")


def test_numbers_that_are_none_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "sent.json"
    text = json.dumps(scan("a", 1, growth={"per_hour": "HUGE"})).replace('"HUGE"', "1e999")
    path.write_text(text.replace('"live": 40', '"live": 1' + "0" * 400), encoding="utf-8")
    (node,) = run("nodes", "--from", str(path), "--json").document["nodes"]
    assert (node["growth_per_hour"], node["live"]) == (None, None)


def test_every_number_of_a_node_is_in_text_and_table() -> None:
    node = FleetNode("n", {"zone": "a"}, 20_000, 40, 20_040, 5.0, None, {"nic-reset": "critical"}, 61.5, 3.0, 12.0)
    other = FleetNode("m", {"zone": "b"}, 3, 40, 43, 0.0)
    judged = judge_nodes(Fleet(0.0, "", (node, other)), Thresholds())
    rows = {row["node"]: row for row in csv.DictReader(render_csv(judged).splitlines())}
    numbers = [rows["n"][name] for name in ("zombies", "live", "counted", "saturated_seconds", "resets", "restarts")]
    assert numbers == ["20000", "40", "20040", "61.5", "3.0", "12.0"]
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(*render_nodes_text(judged, (), "--from x", 0.0), sep="\n")
    text = console.export_text()
    for words in ("nic-reset", "12 restarts", "3 resets", "62 s saturated"):
        assert words in " ".join(text.split()), text


def test_every_remedy_of_a_rollout_is_one_that_the_doctor_names() -> None:
    every = CohortPlan((), tuple((name, 1) for name in (*FINDINGS, "one-of-a-newer-agent")), waves_of(["a"]))
    assert all(told_remedy(remedy) for remedy in every.remedies)
    assert not {"look-closer", "find-cpu", "watch-longer"} & set(every.remedies), "a rollout changes something"
    plan = CohortPlan((), (("unneeded-agent", 4), ("crash-looping-unit", 4), ("zombie-growth", 2)), waves_of(["a"]))
    assert plan.remedies == ("stop-unit", "stop-maker")
    assert "Remedy: stop it and keep it from starting again, then" in render_ansible((plan,), 60)


def test_nothing_sent_is_no_healthy_fleet(tmp_path: Path) -> None:
    with pytest.raises(ZombiescopeError) as caught:
        run("nodes", "--from", send(tmp_path))
    assert caught.value.exit_code == 3


def test_an_unknown_rule_of_sickness_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ZombiescopeError, match="zombeis"):
        run("cohorts", "--from", send(tmp_path, scan("a", 1)), "--sick", "zombeis")


def test_since_comes_from_documents_of_several_days(tmp_path: Path) -> None:
    sent, rows = [], ["node,image"]
    for number in range(40):
        name, is_bad = f"n{number}", number % 2 == 0
        rows.append(f"{name},{'bad' if is_bad else 'good'}")
        sent.append(scan(name, 10, "2026-01-01T00:00:00Z"))
        sent.append(scan(name, 20_000 if is_bad else 10, "2026-01-05T00:00:00Z"))
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(rows), encoding="utf-8")
    body = run("cohorts", "--from", send(tmp_path, *sent), "--labels", str(labels), "--json").document
    first = body["cohorts"][0]
    assert (first["labels"], first["since"]) == ({"image": "bad"}, "2026-01-05T00:00:00.000Z")
    assert body["verdict"].startswith("20 of 20 nodes with image bad are sick since 2026-01-05")


def test_csv_is_a_table_that_no_spreadsheet_obeys(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text('node,zone\na,"=cmd|x, ""y"""\nb,-5\n', encoding="utf-8")
    text = run("nodes", "--from", send(tmp_path, scan("a", 1), scan("b", 2)), "--labels", str(labels), "--csv").text
    rows = {row["node"]: row for row in csv.DictReader(text.splitlines())}
    assert rows["a"]["zone"] == '\'=cmd|x, "y"'
    assert rows["b"]["zone"] == "-5"


def test_with_node_exporter_alone_the_fleet_is_its_own_yardstick() -> None:
    nodes = [FleetNode(f"n{number}", {}, counted=260) for number in range(9)] + [FleetNode("sick", {}, counted=70_000)]
    first, *others = judge_nodes(Fleet(0.0, "", tuple(nodes)), Thresholds())
    assert (first.node.name, first.severity) == ("sick", Severity.CRITICAL)
    assert "an estimate" in first.gaps[0].reason
    assert {each.severity for each in others} == {Severity.OK}


def test_one_large_count_without_a_fleet_cannot_be_judged() -> None:
    (only,) = judge_nodes(Fleet(0.0, "", (FleetNode("alone", {}, counted=70_000),)), Thresholds())
    assert only.severity is Severity.UNKNOWN


@pytest.mark.parametrize("size", [1, 2, 3, 19, 20, 21, 400])
def test_waves_hold_every_node_once_and_begin_with_one(size: int) -> None:
    names = [f"n{number}" for number in range(size)]
    waves = waves_of(names)
    assert [name for wave in waves for name in wave.nodes] == names
    assert len(waves[0].nodes) == 1
    assert [len(wave.nodes) for wave in waves] == sorted(len(wave.nodes) for wave in waves)


def test_a_hostile_node_name_stays_a_name_in_playbook_and_job() -> None:
    evil = 'n1"]\n  tasks: [{shell: "rm -rf /"}]\n#'
    plans = (CohortPlan((("zone", "{{ lookup('pipe','id') }}"),), (), waves_of([evil])),)
    hosts = next(line for line in render_ansible(plans, 600).splitlines() if line.startswith("  hosts:"))
    assert json.loads(hosts.removeprefix("  hosts: ")) == [evil]
    assert not any(line.startswith("  tasks: [") for line in render_ansible(plans, 600).splitlines())
    _, _, job = render_kubernetes(plans, "zombiescope:1", 600).partition("\n")
    assert json.loads(job)["spec"]["template"]["spec"]["nodeName"] == evil


def test_a_table_is_read_by_duckdb(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="the extra [fleet]")
    path = tmp_path / "nodes.parquet"
    rows = "select 'n' || i as node, case when i % 2 = 0 then 20000 else 3 end as zombies, 40 as live, "
    rows += "case when i % 2 = 0 then 'bad' else 'good' end as image, null::varchar as zone from range(100) t(i)"
    duckdb.connect().execute(f"copy ({rows}) to '{path}' (format parquet)")
    body = run("cohorts", "--from", str(path), "--json").document
    assert body["cohorts"][0]["labels"] == {"image": "bad"}
    assert (body["nodes"], body["nodes_sick"]) == (100, 50)


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 nothing of the kind")
    with pytest.raises(ZombiescopeError) as caught:
        run("nodes", "--from", str(tmp_path / "x.parquet"))
    assert caught.value.exit_code == 3


def test_what_ansible_kept_is_unwrapped(tmp_path: Path) -> None:
    kept = {"changed": True, "rc": 0, "stdout": json.dumps(scan("a", 5))}
    assert [node["node"] for node in run("nodes", "--from", send(tmp_path, kept), "--json").document["nodes"]] == ["a"]


def test_recordings_are_nodes_too(tmp_path: Path) -> None:
    """Packed as `record` packs them; a torn one is a node that nobody can judge."""
    for name in ("6.1-v2-systemd", "7.2-v2-swap"):
        place = RECORDED / name
        with tarfile.open(tmp_path / f"{name.replace('.', '-')}.tar.gz", "w:gz") as packed:
            packed.add(place / "recording.jsonl", arcname="recording.jsonl")
    (tmp_path / "torn.tar.gz").write_bytes(b"\x1f\x8b torn")
    found = {node["node"]: node for node in run("nodes", "--from", str(tmp_path), "--json").document["nodes"]}
    assert set(found) == {"6-1-v2-systemd", "7-2-v2-swap", "torn"}
    assert found["torn"]["severity"] == "unknown"
    assert found["6-1-v2-systemd"]["zombies"] is not None
    assert found["6-1-v2-systemd"]["labels"]["hierarchy"] == "v2"
