# SPDX-License-Identifier: Apache-2.0
"""Bytes that command a terminal or a browser, in files that strangers share: shown, never obeyed."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.hostile.strangers import UNIT, measured, stored_with, tarred

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\udc9b\r"
MARKUP = "<script>alert(1)</script>\"&'"
QUESTIONS = (
    ("list",),
    ("flame", "stranger"),
    ("heatmap", "stranger"),
    ("diff", "stranger@0..1", "stranger"),
    ("find", "stranger"),
    ("export", "stranger", "--form", "collapsed"),
)


def kept(folder: Path, text: str) -> Path:
    captures = folder / "captures"
    captures.mkdir()
    (captures / "stranger.zscap").write_bytes(stored_with(text))
    return captures


def assert_quiet(text: str) -> None:
    assert all(character == "\n" or character.isprintable() for character in text), ascii(text)


@pytest.mark.attack("command root's terminal through names in a shared capture")
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda words: words[0])
def test_stored_capture(tmp_path: Path, question: tuple[str, ...]) -> None:
    captures = kept(tmp_path, ESCAPES)
    for more in ((), ("--json",))[: 1 if question[0] == "export" else 2]:
        outcome = measured("profile", *question, *more, "--captures", captures)
        outcome.assert_bounded()
        assert outcome.code == 0, outcome.err
        assert_quiet(outcome.out + outcome.err)


@pytest.mark.attack("run a script in the browser that opens a flame graph of a shared capture")
@pytest.mark.parametrize("question", ["flame", "heatmap"])
def test_picture(tmp_path: Path, question: str) -> None:
    captures, picture = kept(tmp_path, MARKUP + ESCAPES), tmp_path / "picture.svg"
    outcome = measured("profile", question, "stranger", "--svg", picture, "--captures", captures)
    assert outcome.code == 0, outcome.err
    drawn = ET.fromstring(picture.read_bytes())
    assert not [
        element for element in drawn.iter() if element.tag.endswith("script") and "alert" in (element.text or "")
    ]


@pytest.mark.attack("command root's terminal through names in an image")
def test_image(tmp_path: Path) -> None:
    layer = f"blobs/\x1b[2J{'0' * 64}.tar"
    manifest = json.dumps([{"Layers": [layer]}]).encode()
    docker = tarred({"manifest.json": manifest, "0" * 64 + ".tar": tarred({"a": b""})})
    plain = tarred({f"usr/lib/systemd/system/\x1b[2J{MARKUP[:8]}.service": UNIT}, tarfile.PAX_FORMAT)
    for content in (docker, plain):
        (tmp_path / "image").write_bytes(content)
        outcome = measured("audit", "--all", "--image", tmp_path / "image")
        outcome.assert_bounded()
        assert_quiet(outcome.out + outcome.err)


@pytest.mark.attack("command root's terminal through the answers of a recorded machine")
@pytest.mark.parametrize("command", ["scan", "doctor", "autopsy", "check"])
def test_recording(tmp_path: Path, command: str) -> None:
    lines: list[dict[str, object]] = [{"schema": "zombiescope.recording/1", "tool": "\x1b[2J", "label": "\x1b[2J"}]
    cgroups = "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t1\t3000\t1\n"
    mount = "30 23 0:26 / /sys/fs/cgroup/memory\\033[2J rw - cgroup cgroup rw,memory\n"
    answers = {
        "/proc/cgroups": cgroups,
        "/proc/self/mountinfo": mount.replace("\\033", "\x1b"),
        "/proc/1/mountinfo": mount.replace("\\033", "\x1b"),
        "/proc/sys/kernel/hostname": "\x1b]0;owned\x07\n",
        "/proc/sys/kernel/osrelease": "6.1\x1b[2J\n",
        "/proc/uptime": "\x1b[2J 5\n",
        "/proc/sys/kernel/random/boot_id": "\x1b[2J\n",
    }
    lines += [{"at": 0, "ask": "read", "path": path, "answer": answer} for path, answer in answers.items()]
    walk = {"paths": ["/", "/\x1b[2J"], "leaves": ["/\x1b[2J"], "unreadable": [["/\x1b[3J", "EACCES"]]}
    lines += [{"at": 0, "ask": "directories", "path": "/sys/fs/cgroup/memory\x1b[2J", "answer": walk}]
    folder = tmp_path / "machine"
    folder.mkdir()
    (folder / "recording.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcome = measured(command, "--root", folder)
    outcome.assert_bounded()
    assert_quiet(outcome.out + outcome.err)
