# SPDX-License-Identifier: Apache-2.0
"""The command line inside one process: exit codes, one document, no traceback."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.build import V1_MOUNT, Cgroup, Use, v1_machine, v2_machine, write_machine
from tests.unit.facts.test_names import HOSTILE

from zombiescope import __version__
from zombiescope.cli.main import COMMANDS, main
from zombiescope.facts.names import unshown
from zombiescope.pipeline import scan as scan_pipeline

GROUPS = {b"/a": Cgroup(own=Use(anon=8192), dead=Use(shmem=4096), zombies=3), b"/a/b": Cgroup()}
Capture = pytest.CaptureFixture[str]


def machine(tmp_path: Path, files: Mapping[bytes, bytes] | None = None) -> str:
    return os.fsdecode(write_machine(tmp_path / "machine", v1_machine(GROUPS) if files is None else files))


def document(capsys: Capture) -> dict[str, Any]:
    """Exactly one document on standard output and nothing on the other."""
    out, err = capsys.readouterr()
    assert err == ""
    parsed = json.loads(out)
    assert isinstance(parsed, dict)
    return parsed


def test_a_scan_of_a_folder(tmp_path: Path, capsys: Capture) -> None:
    assert main(["scan", "--json", "--root", machine(tmp_path)]) == 0
    found = document(capsys)
    assert found["schema"] == "zombiescope.scan/1"
    assert found["memcg"] == {
        "hierarchy": "v1",
        "counted": 6,
        "live": 3,
        "zombies": 3,
        "ratio": 2.0,
        "source": "proc_cgroups",
    }
    assert found["parents"][0]["path"] == "/a"
    assert found["parents"][0]["bytes"]["shmem"] == 4096
    assert found["host"]["name"] == "build-7"
    assert found["severity"] == "ok"


def test_a_v2_folder_has_exact_parents(tmp_path: Path, capsys: Capture) -> None:
    assert main(["scan", "--json", "--root", machine(tmp_path, v2_machine(GROUPS))]) == 0
    found = document(capsys)
    assert found["memcg"]["source"] == "cgroup_stat_subsys"
    assert [(row["path"], row["zombies"]) for row in found["parents"]] == [("/a", 3)]


def test_flags_alone_mean_scan(tmp_path: Path, capsys: Capture) -> None:
    root = machine(tmp_path)
    documents = []
    for arguments in (["scan", "--json", "--root", root], ["--json", "--root", root], ["--root", root, "--json"]):
        assert main(arguments) == 0
        documents.append(document(capsys))
    assert documents[0] == documents[1] == documents[2]
    assert main(["--root", root]) == 0
    assert capsys.readouterr().out.startswith("healthy: 3 zombies, warning from 200\n")


def test_a_doctor_of_a_folder(tmp_path: Path, capsys: Capture) -> None:
    assert main(["doctor", "--json", "--root", machine(tmp_path)]) == 0
    found = document(capsys)
    assert found["schema"] == "zombiescope.doctor/1"
    verdicts = {each["id"]: each["verdict"] for each in found["findings"]}
    assert {name for name, verdict in verdicts.items() if verdict == "present"} == set()
    assert (verdicts["zombie-population"], verdicts["visible-leak"]) == ("absent", "absent")
    assert {verdicts[name] for name in ("zombie-growth", "saturated-core", "crash-looping-unit", "cpu-steal")} == {
        "unknown"
    }


def test_the_doctor_fails_where_it_was_asked_to(tmp_path: Path, capsys: Capture) -> None:
    root = machine(tmp_path, v1_machine({b"/a": Cgroup(zombies=10_000)}))
    assert main(["doctor", "--root", root]) == 0
    assert main(["doctor", "--root", root, "--fail-on", "warning"]) == 1
    assert main(["doctor", "--root", root, "--fail-on", "critical"]) == 1
    healthy = machine(tmp_path / "other", v1_machine({}))
    assert main(["doctor", "--root", healthy, "--fail-on", "warning"]) == 0
    capsys.readouterr()


def test_zombies_that_cannot_be_counted_exit_with_3_and_a_document(tmp_path: Path, capsys: Capture) -> None:
    files = v1_machine(GROUPS)
    del files[b"/proc/cgroups"]
    root = machine(tmp_path, files)
    assert main(["scan", "--json", "--root", root]) == 3
    found = document(capsys)
    assert found["memcg"]["zombies"] is None
    assert found["severity"] == "unknown"
    assert "memcg.zombies" in {gap["fact"] for gap in found["gaps"]}
    assert main(["scan", "--root", root]) == 3
    assert capsys.readouterr().out.startswith("cannot tell: /proc/cgroups: no such file")


def test_an_empty_folder_is_a_document_of_gaps(tmp_path: Path, capsys: Capture) -> None:
    for command in ("scan", "doctor"):
        assert main([command, "--json", "--root", str(tmp_path)]) == 3
        assert document(capsys)["gaps"]


@pytest.mark.parametrize(
    ("name", "why"), [("none", "there is no such folder"), ("file", "it is neither a folder nor a readable recording")]
)
@pytest.mark.parametrize("command", ["scan", "doctor"])
def test_a_root_that_is_no_folder_is_a_usage_error(
    tmp_path: Path, capsys: Capture, command: str, name: str, why: str
) -> None:
    (tmp_path / "file").write_text("")
    assert main([command, "--json", "--root", str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: cannot use ")
    assert f"why: {why}" in err
    assert "try: " in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["scann"], "Did you mean 'scan'?"),
        (["docter"], "Did you mean 'doctor'?"),
        (["xyzzy"], "No such command 'xyzzy'."),
        (["scan", "--frobnicate"], "No such option"),
        (["scan", "extra"], "unexpected extra argument"),
        (["doctor", "--seconds", "soon"], "not a valid float"),
        (["doctor", "--seconds", "-1"], "-1"),
        (["completion", "tcsh"], "tcsh"),
    ],
)
def test_usage_errors_exit_with_2_on_standard_error(capsys: Capture, arguments: list[str], words: str) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(capsys: Capture, shell: str) -> None:
    assert main(["completion", shell]) == 0
    out, err = capsys.readouterr()
    assert "_ZOMBIESCOPE_COMPLETE" in out
    assert err == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(capsys: Capture, command: str) -> None:
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"zombiescope {command}" in out
    assert "Examples:" in out


def test_the_group_lists_every_command_and_the_version(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in COMMANDS)
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


def seed_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object, **__: object) -> None:
        raise ZeroDivisionError("seeded")

    monkeypatch.setattr(scan_pipeline, "observe", bug)


@pytest.mark.seeds_a_bug
@pytest.mark.parametrize("flags", [[], ["--debug"]])
def test_the_last_words_of_a_bug_do_not_command_the_terminal(
    flags: list[str], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(*_: object, **__: object) -> None:
        raise ValueError("a stranger's \x1b]0;name\x07")

    monkeypatch.setattr(scan_pipeline, "observe", bug)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main([*flags, "scan"]) == 70
    assert not set("\x1b\x07") & set(capsys.readouterr().err)


@pytest.mark.seeds_a_bug
def test_a_bug_is_one_line_and_its_traceback_a_file(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed_a_bug(monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["scan"]) == 70
    out, err = capsys.readouterr()
    assert out == ""
    assert "this is a bug" in err
    assert "ZeroDivisionError: seeded" in err
    assert "Traceback" not in err
    kept = [path for path in tmp_path.iterdir() if path.name.startswith("zombiescope-bug-")]
    assert "Traceback" in kept[0].read_text()


@pytest.mark.seeds_a_bug
def test_debug_prints_the_traceback(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    seed_a_bug(monkeypatch)
    assert main(["--debug", "scan"]) == 70
    assert main(["--debug"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_130(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scan_pipeline, "observe", interrupt)
    assert main(["scan"]) == 130
    out, err = capsys.readouterr()
    assert (out, err.strip()) == ("", "interrupted")


def test_hostile_names_through_the_whole_command(tmp_path: Path, capsys: Capture) -> None:
    names = [b"/" + name for name in HOSTILE if name and b"/" not in name]
    root = machine(tmp_path, v1_machine({name: Cgroup(dead=Use(shmem=4096), zombies=1) for name in names}))
    assert main(["scan", "--json", "--root", root]) == 0
    assert {unshown(row["path"]) for row in document(capsys)["parents"]} == set(names)
    assert main(["scan", "--root", root]) == 0
    assert all(character.isprintable() or character == "\n" for character in capsys.readouterr().out)


def test_no_bytes_says_so(tmp_path: Path, capsys: Capture) -> None:
    assert main(["scan", "--json", "--no-bytes", "--root", machine(tmp_path)]) == 0
    found = document(capsys)
    assert found["parents"] == []
    assert ("parents", "left out by --no-bytes") in {(gap["fact"], gap["reason"]) for gap in found["gaps"]}


def test_a_machine_whose_mount_point_is_a_link_outside_is_not_followed(tmp_path: Path, capsys: Capture) -> None:
    root = machine(tmp_path, {path: text for path, text in v1_machine(GROUPS).items() if not path.startswith(V1_MOUNT)})
    os.makedirs(os.path.join(root, "sys/fs/cgroup"), exist_ok=True)
    os.symlink("/sys/fs/cgroup/memory", os.path.join(root, "sys/fs/cgroup/memory"))
    assert main(["scan", "--json", "--root", root]) == 3
    assert document(capsys)["memcg"]["live"] is None
