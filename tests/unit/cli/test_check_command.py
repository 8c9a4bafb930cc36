# SPDX-License-Identifier: Apache-2.0
"""`check` as a pipeline meets it: the incident machine, images, every format, one verdict and one exit code."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
from lxml import etree
from tests.unit.trees import ECS_DEB, INCIDENT, KUBELET, TARGETS, WANTED, enabled, plant

from zombiescope.cli.main import main

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
FORMATS = ("text", "json", "junit", "sarif", "nagios", "npd", "prometheus", "github")


@pytest.fixture
def incident(tmp_path: Path) -> Path:
    return plant(tmp_path / "incident", INCIDENT)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return plant(tmp_path / "image", {**TARGETS, **KUBELET, **enabled("ecs.service", ECS_DEB)})


def check(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["check", *arguments])
    out, err = capfd.readouterr()
    return status, out, err


@pytest.mark.parametrize("form", FORMATS)
def test_the_incident_is_critical_in_every_format(incident: Path, form: str, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = check(capfd, "--root", str(incident), "--format", form)
    assert status == 2, out
    assert "CRITICAL" in out or '"level": "error"' in out
    assert "68,440" in out or "68440" in out or '"text": "zombies: 68,440' in out


def test_sarif_and_junit_are_valid(incident: Path, capfd: pytest.CaptureFixture[str]) -> None:
    schema = json.loads((SCHEMAS / "sarif-2.1.0.json").read_text())
    _, out, _ = check(capfd, "--root", str(incident), "--format", "sarif")
    sarif = json.loads(out)
    jsonschema.Draft4Validator(schema).validate(sarif)
    rules = {result["ruleId"]: result["level"] for result in sarif["runs"][0]["results"]}
    assert rules["zombies"] == rules["image-risk"] == "error"
    _, out, _ = check(capfd, "--root", str(incident), "--format", "junit")
    xsd = etree.XMLSchema(etree.parse(str(SCHEMAS / "junit.xsd")))
    report = etree.fromstring(out.encode())
    xsd.assertValid(report)
    assert int(report.get("failures") or 0) >= 2


def test_prometheus_passes_promtool(incident: Path, capfd: pytest.CaptureFixture[str]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    _, out, _ = check(capfd, "--root", str(incident), "--format", "prometheus")
    run = subprocess.run([promtool, "check", "metrics"], input=out, text=True, capture_output=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_nagios_and_npd_lines(incident: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, out, _ = check(capfd, "--root", str(incident), "--format", "nagios")
    first, *rest = out.splitlines()
    assert first.startswith("ZOMBIESCOPE CRITICAL - ")
    assert "zombies=68440;1000;10000;0" in first.partition(" | ")[2]
    assert any("ecs.service" in line for line in rest)
    assert not any("|" in line for line in rest)
    _, out, _ = check(capfd, "--root", str(incident), "--format", "npd")
    assert len(out.rstrip("\n")) <= 80
    assert "\n" not in out.rstrip("\n")


def test_an_unpacked_image_is_judged_by_its_files_alone(image: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = check(capfd, "--root", str(image), "--json")
    document = json.loads(out)
    assert (status, document["verdict"]) == (2, "CRITICAL")
    assert [reason["what"] for reason in document["reasons"]] == ["image-risk:ecs.service"]
    assert document["schema"] == "zombiescope.check/1"


def test_a_waiver_and_limits_from_a_file(image: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    gate = tmp_path / "gate.toml"
    gate.write_text(
        '[[waiver]]\nwhat = "image-risk:ecs.service"\nreason = "until the new image"\nexpires = 2999-01-01\n'
    )
    for form in FORMATS:
        status, out, _ = check(capfd, "--root", str(image), "--config", str(gate), "--format", form)
        assert status == 0, (form, out)
    gate.write_text(
        '[[waiver]]\nwhat = "image-risk:ecs.service"\nreason = "until the new image"\nexpires = 2020-01-01\n'
    )
    status, out, _ = check(capfd, "--root", str(image), "--config", str(gate))
    assert status == 2
    assert "its waiver ended on 2020-01-01" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bogus"],
        ["--format", "xml"],
        ["--limit", "x"],
        ["--limit", "zombies=3"],
        ["--for", "soon"],
        ["--config", "/nowhere"],
        ["--image", "/nowhere"],
        ["--root", "/nowhere"],
        ["--image", "x", "--root", "/"],
        ["--limit", "zombies_warning=-1"],
    ],
)
def test_a_wrong_command_line_is_unknown(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = check(capfd, *arguments)
    assert (status, out) == (3, "")
    assert "why:" in err


@pytest.mark.parametrize("form", FORMATS)
def test_what_could_not_be_looked_at_is_unknown_in_every_format(
    tmp_path: Path, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.tar"
    broken.write_bytes(b"not a tar archive" * 100)
    status, out, _ = check(capfd, "--image", str(broken), "--format", form)
    assert status == 3
    if form not in ("npd", "prometheus"):
        assert "not a tar archive" in out


def test_a_fine_host_is_ok(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = plant(tmp_path, {**TARGETS, **enabled("ssh.service", WANTED)})
    status, out, _ = check(capfd, "--root", str(root))
    assert status == 0
    assert out.startswith("OK: ")
    schema = json.loads((SCHEMAS / "sarif-2.1.0.json").read_text())
    _, out, _ = check(capfd, "--root", str(root), "--format", "sarif")
    jsonschema.Draft4Validator(schema).validate(json.loads(out))


def test_the_environment_sets_limits(
    incident: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("ZOMBIES_WARNING", "ZOMBIES_CRITICAL", "RATIO_WARNING", "RATIO_CRITICAL"):
        monkeypatch.setenv(f"ZOMBIESCOPE_CHECK_{name}", "1000000")
    _, out, _ = check(capfd, "--root", str(incident), "--json")
    verdicts = {reason["what"]: reason["verdict"] for reason in json.loads(out)["reasons"]}
    assert verdicts["zombies"] == verdicts["ratio"] == "OK"


def test_a_recording_is_judged_by_its_counts_and_never_fine(
    incident: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = tmp_path / "node.tar.gz"
    assert main(["record", str(recording), "--seconds", "0", "--root", str(incident)]) == 0
    capfd.readouterr()
    status, out, _ = check(capfd, "--root", str(recording), "--json")
    document = json.loads(out)
    assert (status, [reason["what"] for reason in document["reasons"]]) == (
        2,
        ["zombies", "ratio", "audit", "directories"],
    )
    verdicts = {reason["what"]: reason["verdict"] for reason in document["reasons"]}
    assert (verdicts["audit"], document["not_judged"]) == ("UNKNOWN", None)
    assert {"reasons[].value", "not_judged"} <= {gap["fact"] for gap in document["gaps"]}
    for name in ("ZOMBIES_WARNING", "ZOMBIES_CRITICAL", "RATIO_WARNING", "RATIO_CRITICAL"):
        monkeypatch.setenv(f"ZOMBIESCOPE_CHECK_{name}", "1000000")
    assert check(capfd, "--root", str(recording))[0] == 3
    assert main(["audit", "--root", str(recording)]) == 3
    assert "does not keep unit files" in capfd.readouterr().err


def test_a_unit_that_could_not_be_read_is_not_fine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    padded = WANTED + "#" * (2 << 20)
    root = plant(tmp_path, {**TARGETS, **KUBELET, **enabled("mystery.service", padded)})
    status, out, _ = check(capfd, "--root", str(root))
    assert status == 3, out
    assert "1 unit files could not be read, such as mystery.service" in out
