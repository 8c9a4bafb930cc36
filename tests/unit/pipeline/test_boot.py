# SPDX-License-Identifier: Apache-2.0
"""What a booted candidate says, heard and judged; and every way in which it cannot be booted here, said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zombiescope.cli.main import main
from zombiescope.diagnosis.boot import Booted, BootedUnit, judge_boot
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.host import boot as candidates
from zombiescope.host.boot import Candidate, Heard, newest_kernel
from zombiescope.pipeline import boot as booting

LOOP = BootedUnit("ecs.service", 6, 6, 6, "6 automatic restarts in the last hour")
SEEN = Booted(60.0, 90.0, 4, 10, 6, (LOOP,))


def verdicts(booted: Booted) -> dict[str, str]:
    return {reason.what: str(reason.verdict) for reason in judge_boot(booted, Thresholds())}


@pytest.mark.parametrize(
    ("booted", "expected"),
    [
        (SEEN, {"boot-loop:ecs.service": "CRITICAL", "boot-leak": "OK"}),
        (Booted(60.0, 90.0, 4, 5, 1, ()), {"boot-leak": "OK"}),
        (Booted(60.0, 90.0, 4, 2, 0, ()), {"boot-leak": "OK"}),
        (Booted(60.0, 90.0, 4, 30, 40, ()), {"boot-leak": "CRITICAL"}),
        (Booted(3600.0, 4000.0, 4, 60, 70, ()), {"boot-leak": "WARNING"}),
        (
            Booted(60.0, 90.0, 4, 4, 6, (BootedUnit("a.service", 6, 6, 0, "x"),)),
            {"boot-loop:a.service": "WARNING", "boot-leak": "OK"},
        ),
        (
            Booted(60.0, 90.0, 4, 4, 6, (BootedUnit("a.service", 6, 6, None, "x"),)),
            {"boot-loop:a.service": "CRITICAL", "boot-leak": "OK"},
        ),
        (Booted(60.0, 90.0, 4, 4, 1, (BootedUnit("a.service", 1, 1, 1, "x"),)), {"boot-leak": "OK"}),
    ],
)  # fmt: skip
def test_the_verdict(booted: Booted, expected: dict[str, str]) -> None:
    assert verdicts(booted) == expected


def test_it_says_what_would_leak_per_day() -> None:
    told = judge_boot(SEEN, Thresholds())[0].summary
    assert "started 6 times in 60 s, 6 memory cgroups left behind: it would leak up to 8,640 per day" in told


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["vmlinuz-6.1.0-9", "vmlinuz-6.1.0-10", "initrd.img-6.1.0-10", "x"], ("vmlinuz-6.1.0-10", "initrd.img-6.1.0-10")),
        (["vmlinuz-5.14.0-1.el9", "initramfs-5.14.0-1.el9.img"], ("vmlinuz-5.14.0-1.el9", "initramfs-5.14.0-1.el9.img")),
        (["vmlinuz-6.1"], ("vmlinuz-6.1", None)),
        (["grub", "config-6.1"], (None, None)),
    ],
)  # fmt: skip
def test_the_newest_kernel_and_what_belongs_to_it(names: list[str], expected: tuple[str | None, str | None]) -> None:
    assert newest_kernel(names) == expected


def document(**more: Any) -> dict[str, Any]:
    return {"memcg": {"zombies": 4}, "units": [], "findings": [], "host": {"kernel": "6.1"}, **more}


def told(first: object, audit: object, last: object) -> bytes:
    parts = {"first": first, "audit": audit, "last": last}
    lines = [f"ZS-BEGIN {name}\r\n{json.dumps(part)}\r\nZS-END {name}\r\n" for name, part in parts.items()]
    return ("".join(lines) + "ZS-BEGIN error\r\nZS-END all\r\n").encode()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[Heard]:
    """The machine's answer, put in its place."""
    answers: list[Heard] = []
    monkeypatch.setattr(booting, "prepare", lambda *_: Candidate("d", "raw", "k", None, "/dev/nvme0n1"))
    monkeypatch.setattr(booting, "boot", lambda *_: answers[0])
    return answers


def check(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, Any]]]:
    image, program = tmp_path / "image.raw", tmp_path / "program"
    image.write_bytes(bytes(1 << 16))
    program.write_bytes(b"\x7fELF")
    status = main(["check", "--boot", str(image), "--program", str(program), "--for", "60s", "--json"])
    return status, {reason["what"]: reason for reason in json.loads(capfd.readouterr().out)["reasons"]}


def test_a_loop_inside_is_heard(heard: list[Heard], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    finding = {
        "id": "crash-looping-unit", "verdict": "present", "summary": "ecs.service: 6 automatic restarts in the window",
        "evidence": [{"fact": "ecs.service.restarts", "value": 6}, {"fact": "ecs.service.need", "value": "unneeded"}],
    }  # fmt: skip
    unit = {"name": "ecs.service", "restarts": 6, "births": 6, "zombies": 6}
    heard.append(Heard(b"", told(document(), document(units=[unit], findings=[finding]), document()), 90.0, True))
    status, reasons = check(tmp_path, capfd)
    assert status == 2
    assert reasons["boot-loop:ecs.service"]["verdict"] == "CRITICAL"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Heard(b"Kernel panic - not syncing: no root\n", b"", 3.0, True), "no root"),
        (Heard(b"", b"", 700.0, False), "nothing was heard for 700 s"),
        (Heard(b"", told(document(), [], document()), 90.0, True), "no answer to 'audit'"),
        (Heard(b"", told({}, document(), {}), 90.0, True), "could not be counted"),
        (Heard(b"\x1b[2J\xff", b"ZS-BEGIN first\n{\nZS-END first\n", 9.0, True), "no answer to 'first'"),
    ],
)  # fmt: skip
def test_what_is_not_heard_is_unknown(
    answer: Heard, words: str, heard: list[Heard], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    heard.append(answer)
    _, reasons = check(tmp_path, capfd)
    assert reasons["boot"]["verdict"] == "UNKNOWN"
    assert words in reasons["boot"]["summary"]
    assert "\x1b" not in reasons["boot"]["summary"]


def test_an_archive_cannot_be_booted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, reasons = check(tmp_path, capfd)
    assert status == 3
    assert "it is no disk" in reasons["boot"]["summary"]


def test_without_a_program_for_the_inside_that_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "own_program", lambda: None)
    assert main(["check", "--boot", str(tmp_path / "x.raw")]) == 3
    assert "one-file build" in capfd.readouterr().err
    assert main(["check", "--boot", str(tmp_path / "x.raw"), "--program", str(tmp_path / "none")]) == 3
    assert "cannot read" in capfd.readouterr().err
