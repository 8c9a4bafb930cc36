# SPDX-License-Identifier: Apache-2.0
"""Recording without numpy: segments as they were sampled, symbols beside them, a ring of our own files, and an import elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.profiler.perf_files import small_capture

from zombiescope.cli.main import main
from zombiescope.errors import ObservationError, UsageError
from zombiescope.facts.gap import Gap
from zombiescope.profiler.files import rolling, sources
from zombiescope.profiler.files.reading import Choices, read_capture
from zombiescope.profiler.files.rolling import Order, RawRecording, keep_symbols
from zombiescope.profiler.files.sources import GROWING, IsOver

CONTENT = b"PERFILE2 and samples"


class Source:
    """Gives so many segments, each at once."""

    name, why = "own", "a test"

    def __init__(self, count: int, content: bytes = CONTENT, fails: bool = False) -> None:
        self.left, self.content, self.fails, self.closed = count, content, fails, False

    def begin(self, folder: bytes) -> None:
        """At once."""

    def segment(self, folder: bytes, is_over: IsOver, has_next: Callable[[], bool]) -> bytes:
        path = os.path.join(folder, b"2026010%dT000000Z" % self.left + GROWING)
        os.makedirs(folder, exist_ok=True)
        sources._CLAIMED[path] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(sources._CLAIMED[path], self.content)
        self.left -= 1
        if self.fails:
            raise OSError(28, "No space left on device")
        return path

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def nothing_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_CLAIMED", {})


def recording(folder: Path, source: Source, monkeypatch: pytest.MonkeyPatch, most_bytes: int = 1 << 30) -> RawRecording:
    monkeypatch.setattr(rolling, "open_source", lambda wanted, rate: source)
    return RawRecording(Order(os.fsencode(folder), most_bytes=most_bytes), lambda: source.left == 0)


def test_segments_keep_their_bytes_and_get_their_last_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(3)
    stored = list(recording(tmp_path, source, monkeypatch).segments(None))
    assert [Path(os.fsdecode(one.path)).read_bytes() for one in stored] == [CONTENT] * 3
    assert not list(tmp_path.glob("*.recording"))
    assert source.closed
    assert len(list(tmp_path.glob("*.kallsyms"))) <= 1


def test_what_a_killed_one_left_is_picked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "20250101T000000Z.recording").write_bytes(b"left")
    stored = list(recording(tmp_path, Source(1), monkeypatch).segments(None))
    assert stored[0].who == "profile record, found after it had died"
    assert (tmp_path / "20250101T000000Z.perf").read_bytes() == b"left"


def test_what_another_recorder_took_meanwhile_is_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "left_behind", lambda folder: iter([folder + b"/20250101T000000Z.recording"]))
    assert len(list(recording(tmp_path, Source(1), monkeypatch).segments(None))) == 1


def test_a_clock_that_was_set_back_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "20260101T000000Z.perf").write_bytes(b"older")
    with pytest.raises(ObservationError, match="file exists"):
        list(recording(tmp_path, Source(1), monkeypatch).segments(None))
    assert (tmp_path / "20260101T000000Z.perf").read_bytes() == b"older"


def test_a_full_disk_keeps_what_came_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(1, fails=True)
    stored = []
    with pytest.raises(ObservationError, match="no space left"):
        for one in recording(tmp_path, source, monkeypatch).segments(None):
            stored.append(one)  # noqa: PERF402 (what came before the error counts)
    assert len(stored) == 1
    assert source.closed


def test_the_ring_takes_our_oldest_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("20250101T000000Z.perf", "20250101T000000Z.kallsyms", "mine.perf", "20250101T000000Z.zscap"):
        (tmp_path / name).write_bytes(b"x" * 100)
    (tmp_path / "20240101T000000Z.perf").symlink_to("mine.perf")
    list(recording(tmp_path, Source(1), monkeypatch, most_bytes=10).segments(None))
    left = {path.name for path in tmp_path.iterdir() if path.suffix != ".kallsyms"}
    assert left == {"mine.perf", "20250101T000000Z.zscap", "20240101T000000Z.perf", "20260101T000000Z.perf"}
    assert not (tmp_path / "20250101T000000Z.kallsyms").exists()


def test_symbols_are_kept_or_the_reason_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = tmp_path / "kallsyms"
    monkeypatch.setattr(rolling, "_KALLSYMS", str(saved))
    gap = keep_symbols(os.fsencode(tmp_path), b"a")
    assert isinstance(gap, Gap) and "no such file" in gap.reason
    saved.write_text("0000000000000000 T _text\n0000000000000000 T schedule\n")
    gap = keep_symbols(os.fsencode(tmp_path), b"a")
    assert isinstance(gap, Gap) and "hides" in gap.reason
    saved.write_text("0000000000000000 A fixed\nffffffff81000000 T _text\n")
    assert keep_symbols(os.fsencode(tmp_path), b"a") == os.fsencode(tmp_path / "a.kallsyms")
    assert (tmp_path / "a.kallsyms").read_text() == saved.read_text()


def test_a_full_install_reads_a_raw_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(1, small_capture().file())
    (stored,) = recording(tmp_path, source, monkeypatch).segments(None)
    assert len(read_capture(stored.path, Choices())) > 0


WITHOUT_NUMPY = """
import importlib.abc, sys
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numpy":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
import importlib.util
plain = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "numpy" else plain(name, package)
from zombiescope.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def without_numpy(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT_NUMPY, *words], capture_output=True, text=True, check=False)


def test_the_command_needs_no_numpy_to_record(tmp_path: Path) -> None:
    done = without_numpy("profile", "record", "--help")
    assert done.returncode == 0, done.stderr
    done = without_numpy("profile", "record", "--around", "nic-reset", "--captures", str(tmp_path))
    assert done.returncode == 2
    assert "record without --around" in done.stderr
    done = without_numpy("profile", "record", "--with", "own", "--seconds", "1", "--captures", str(tmp_path), "--json")
    assert done.returncode in (0, 3), done.stderr  # 3: not permitted to sample here
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        told = json.loads(done.stdout)
        assert told["schema"] == "zombiescope.captures/1"
        assert told["captures"][0]["is_raw"] is True
        assert told["captures"][0]["is_damaged"] is None
        assert "captures[].is_damaged" in {gap["fact"] for gap in told["gaps"]}


@pytest.mark.parametrize("command", ["ring", "keep"])
def test_a_ring_is_told_of_and_kept_without_numpy(command: str, tmp_path: Path) -> None:
    done = without_numpy("profile", command, "--captures", str(tmp_path))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["import", "list", "heatmap", "flame", "diff", "find", "serve", "export"])
def test_all_others_say_what_is_missing(command: str) -> None:
    done = without_numpy("profile", command, "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert "numpy is not installed" in done.stderr
    assert "pip install 'zombiescope[profile]'" in done.stderr


def test_in_the_one_file_nothing_is_told_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from zombiescope import errors  # noqa: PLC0415 (the constant is replaced)

    monkeypatch.setattr(errors, "IS_ONE_FILE", True)
    error = errors.absent_part("cannot draw", "numpy", "profile", "use another")
    assert isinstance(error, UsageError)
    assert (error.why, error.hint) == ("not in the one-file build", "use another")


def test_a_ring_of_raw_segments_says_so_and_how_they_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("20260101T000000Z.kallsyms", "20260101T000000Z.perf", "20260101T000100Z.perf", "notes.perf"):
        (tmp_path / name).write_bytes(CONTENT)
    assert main(["profile", "ring", "--captures", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "2 raw segments" in said
    assert "no recorder" not in said
    assert f"profile import {tmp_path}/20260101T000100Z.perf --kallsyms {tmp_path}/20260101T000000Z.kallsyms" in said
    assert main(["profile", "ring", "--json", "--captures", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["captures"] == 0
    assert "raw segments" in document["gaps"][0]["reason"]
