# SPDX-License-Identifier: Apache-2.0
"""What every version since 0.1.0 wrote is read by this one, nothing is lost; what a later one wrote is refused and left alone."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sqlite3
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.release.keep import KEPT, agent, command, put_back, read_all, told
from tests.release.roots import refuse

from zombiescope import __version__

VERSIONS = sorted(path.name for path in KEPT.iterdir() if path.is_dir())


class Ran(NamedTuple):
    status: int
    said: str


def run(*words: str) -> Ran:
    done = subprocess.run(command(*words), capture_output=True, text=True, check=False, timeout=300)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return Ran(done.returncode, done.stdout + done.stderr)


@pytest.fixture(params=VERSIONS)
def kept(request: pytest.FixtureRequest) -> Iterator[tuple[Path, dict[str, Any]]]:
    if os.geteuid() != 0:
        refuse("journals are root's")
    with put_back(KEPT / request.param) as place:
        yield place, json.loads((KEPT / request.param / "expected.json").read_text())


@pytest.fixture
def place(kept: tuple[Path, dict[str, Any]]) -> Path:
    return kept[0]


def contents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def is_within(expected: object, found: object) -> bool:
    """Fields may be added, and nothing may be missing or different."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(key in found and is_within(value, found[key]) for key, value in expected.items())
    return expected == found


def test_this_version_is_kept_too() -> None:
    assert __version__ in VERSIONS, "python -m tests.release.keep, as root, before a release"


def test_everything_is_read(kept: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = kept
    before = contents(folder)
    found = read_all(folder)
    assert is_within(expected, found), found
    assert contents(folder) == before, "reading changes nothing"


def test_an_agent_goes_on_where_it_was(kept: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = kept
    state = folder / "state"
    before = told("history", "--state", str(state), "--last", "all")
    with agent(state):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            now = told("history", "--state", str(state), "--last", "all")
            if now["samples"] > before["samples"]:
                break
            time.sleep(0.3)
    after = told("history", "--state", str(state), "--last", "all")
    assert after["samples"] > expected["history"]["samples"]
    assert after["since"] == expected["history"]["since"]
    first = {series["name"]: series["first"] for series in after["series"]}
    assert all(first[series["name"]] == series["first"] for series in before["series"])
    assert not [path.name for path in state.iterdir() if "damaged" in path.name]


def test_an_action_is_undone_across_the_upgrade(kept: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = kept
    link = folder / "image/etc/systemd/system/multi-user.target.wants/ecs.service"
    assert not link.is_symlink()
    done = run("undo", expected["action"]["id"], "--yes", "--state", str(folder / "state"))
    assert done.status == 0, done.said
    assert link.is_symlink()
    assert not (folder / "image/etc/systemd/system-preset").exists()


def refused(ran: Ran, status: int, found: str, known: str) -> None:
    assert ran.status == status, ran.said
    assert f"its format is {found}, and this program reads {known}" in ran.said
    assert "use the zombiescope that wrote it, or a newer one" in ran.said


@pytest.mark.parametrize("change", ["", "ALTER TABLE stretch RENAME TO pieces"])
def test_a_later_history_is_refused_and_left_alone(place: Path, change: str) -> None:
    state = place / "state"
    database = sqlite3.connect(state / "history.db")
    with database:
        database.execute("UPDATE meta SET value = 2 WHERE name = 'version'")
        database.execute(change or "DROP TABLE summary")
    database.close()
    before = contents(state)
    refused(run("history", "--state", str(state)), 3, "version 2", "version 1")
    settings = place / "later.toml"
    settings.write_text('[agent]\nlisten = "127.0.0.1:0"\ninterval_seconds = 1\nevents = "polling"\n')
    process = subprocess.Popen(
        command("agent", "--state", str(state), "--config", str(settings)), stderr=subprocess.PIPE, text=True
    )
    said = ""
    try:
        assert process.stderr is not None
        while "version 2" not in said and (line := process.stderr.readline()):
            said += line
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert "its format is version 2, and this program reads version 1" in said
    assert contents(state) == before


def test_a_later_journal_is_refused_and_left_alone(kept: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = kept
    (journal,) = (folder / "state").glob("actions/*/journal.jsonl")
    journal.write_text(journal.read_text().replace('"v": 1', '"v": 2').replace('"do": ', '"does": '))
    before = contents(folder)
    refused(
        run("undo", expected["action"]["id"], "--yes", "--state", str(folder / "state")), 2, "version 2", "version 1"
    )
    listed = run("actions", "--state", str(folder / "state"))
    assert "its format is version 2" in listed.said
    assert contents(folder) == before


def in_heading(content: bytes) -> bytes:
    return content.replace(b"zombiescope.capture/1", b"zombiescope.capture/2", 1)


def in_magic(content: bytes) -> bytes:
    return content.replace(b"ZSCAPT01", b"ZSCAPT02", 1)


@pytest.mark.parametrize("change", [in_heading, in_magic])
def test_a_later_capture_is_refused_and_left_alone(place: Path, change: Callable[[bytes], bytes]) -> None:
    (capture,) = (place / "captures").glob("*.zscap")
    capture.write_bytes(change(capture.read_bytes()))
    before = contents(place)
    ran = run("profile", "flame", "latest", "--captures", str(place / "captures"))
    names = ("ZSCAPT02", "ZSCAPT01") if change is in_magic else ("zombiescope.capture/2", "zombiescope.capture/1")
    refused(ran, 3, *names)
    assert contents(place) == before


def test_a_later_recording_is_refused_and_left_alone(place: Path) -> None:
    recording = place / "recording.tar.gz"
    fresh = io.BytesIO()
    with tarfile.open(recording) as old, tarfile.open(fileobj=fresh, mode="w") as new:
        for member in old.getmembers():
            file = old.extractfile(member)
            content = (file.read() if file else b"").replace(b"zombiescope.recording/1", b"zombiescope.recording/2", 1)
            member.size = len(content)
            new.addfile(member, io.BytesIO(content))
    recording.write_bytes(gzip.compress(fresh.getvalue()))
    before = contents(place)
    refused(run("scan", "--root", str(recording)), 2, "zombiescope.recording/2", "zombiescope.recording/1")
    assert contents(place) == before
