# SPDX-License-Identifier: Apache-2.0
"""Who samples for a recording: perf where it is installed and can, else our own sampler; each says why, or why it cannot."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from zombiescope.errors import ObservationError
from zombiescope.kernel.perf_events import Sampler
from zombiescope.profiler.files import rolling, sources
from zombiescope.profiler.files.sources import OwnSource, PerfSource, open_source


def refuse(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refused(self: Sampler, cpus: list[int]) -> None:
        del self, cpus
        raise OSError(code, "refused")

    monkeypatch.setattr(Sampler, "open", refused)


def perf_is(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str | None) -> None:
    """A program of that name in an otherwise empty search path, or none."""
    if script is not None:
        (folder / "perf").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.fixture(autouse=True)
def nothing_stays_claimed() -> Iterator[None]:
    """A recorder of another test takes the first one that is claimed."""
    yield
    for path in sources.claimed():
        sources.drop(path)


def test_perf_samples_where_it_is_installed_and_can(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refuse(monkeypatch, errno.EMFILE)
    perf_is(monkeypatch, tmp_path, "exit 0")
    source = open_source("auto", 99)
    assert isinstance(source, PerfSource)
    assert "installed and can" in source.why
    assert source.options == ("--buildid-mmap", "--all-cgroups")


def test_an_older_perf_is_asked_for_less(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    perf_is(monkeypatch, tmp_path, 'case "$*" in *--buildid-mmap*) echo unknown option >&2; exit 129;; esac')
    source = open_source("auto", 99)
    assert isinstance(source, PerfSource)
    assert source.options == ("--all-cgroups",)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (None, "perf is not installed"),
        ("echo 'WARNING: perf not found for kernel 6.18' >&2; exit 2", "perf not found for kernel 6.18"),
        ("exit 7", "it ended with 7"),
    ],
)
def test_our_own_samples_where_perf_is_not_there_or_cannot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str | None, why: str
) -> None:
    """Debian's perf is a script that looks for the one of the running kernel: being there is not being able."""
    monkeypatch.setattr(Sampler, "open", lambda self, cpus: None)
    perf_is(monkeypatch, tmp_path, script)
    source = open_source("auto", 99)
    assert isinstance(source, OwnSource)
    assert why in source.why


def test_our_own_is_taken_when_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Sampler, "open", lambda self, cpus: None)
    perf_is(monkeypatch, tmp_path, "exit 0")
    assert isinstance(open_source("own", 99), OwnSource)


@pytest.mark.parametrize("wanted", ["own", "auto"])
def test_a_refusal_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: str) -> None:
    refuse(monkeypatch, errno.EPERM)
    perf_is(monkeypatch, tmp_path, "exit 1")
    with pytest.raises(ObservationError, match="perf_event_open") as raised:
        open_source(wanted, 99)
    assert raised.value.why == "refused"


def test_perf_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    perf_is(monkeypatch, tmp_path, None)
    with pytest.raises(ObservationError, match="perf") as raised:
        open_source("perf", 99)
    assert raised.value.why == "perf is not installed"


def test_what_perf_complains_about_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    perf_is(
        monkeypatch, tmp_path, "echo 'Error:\nNo permission to enable\n  cpu-clock event. Consider more.' >&2; exit 255"
    )
    with pytest.raises(ObservationError) as raised:
        open_source("perf", 99)
    assert raised.value.why == "No permission to enable cpu-clock event"
    with pytest.raises(ObservationError) as raised:
        PerfSource(99).segment(bytes(tmp_path), lambda _: False, lambda: True)
    assert raised.value.why == "No permission to enable cpu-clock event"
    assert not list(tmp_path.glob("*.recording"))


def test_ctrl_c_at_a_terminal_does_not_reach_perf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    perf_is(monkeypatch, tmp_path, f"echo $$ > {tmp_path}/pid; echo sampling has begun >&2; read -r line; exit 0")
    source = PerfSource(99)
    source.begin(bytes(tmp_path))
    process = int((tmp_path / "pid").read_text())
    assert os.getpgid(process) == process != os.getpgrp()
    source.close()


@pytest.mark.parametrize(("free", "raised_is"), [(9, ObservationError), (0, OSError)])
def test_a_perf_that_died_keeps_what_it_wrote(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, raised_is: type[Exception]
) -> None:
    perf_is(monkeypatch, tmp_path, "echo samples; echo sampling has begun >&2; kill -TERM $$")
    monkeypatch.setattr("zombiescope.profiler.files.sources.os.statvfs", lambda _: SimpleNamespace(f_bavail=free))
    with pytest.raises(raised_is, match="signal 15 ended it" if free else "No space left"):
        PerfSource(99).segment(bytes(tmp_path), lambda _: False, lambda: True)
    assert len(list(tmp_path.glob("*.recording"))) == 1


def test_segments_of_perf_overlap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The next one runs before this one is ended; closing ends the last and takes its file away."""
    perf_is(monkeypatch, tmp_path, "echo sampling has begun >&2; echo samples; read -r line; echo ended; exit 0")
    looked: list[int] = []

    def is_over(written: int) -> bool:
        looked.append(written)
        return written > 7

    source = open_source("perf", 99)
    first = source.segment(bytes(tmp_path), is_over, lambda: True)
    assert looked[-1] == 8
    assert Path(first.decode()).read_text().endswith("ended\n")
    running = [one for one in tmp_path.glob("*.recording") if bytes(one) != first]
    assert [one.read_text() for one in running] == ["samples\n"]
    source.close()
    assert not running[0].exists()


def test_what_came_until_the_end_is_in_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also when the time was over before the first look: on a busy machine the head of a file takes its time."""
    monkeypatch.setattr(Sampler, "drain", lambda self: [b"the last samples"])
    path = OwnSource(Sampler(99)).segment(bytes(tmp_path), lambda _: True, lambda: False)
    assert Path(path.decode()).read_bytes().endswith(b"the last samples")


def test_a_file_that_somebody_writes_is_not_picked_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rolling, "_LAST_WORDS_SECONDS", 0.1)
    path = tmp_path / "20260101T000000Z.recording"
    with path.open("wb"):
        assert rolling._is_growing(bytes(path))
    assert not rolling._is_growing(bytes(path))


def test_a_file_that_is_not_stored_yet_is_left_to_its_recorder(tmp_path: Path) -> None:
    """Nobody writes it any more, and its recorder has not come to storing it."""
    path = sources._new_path(bytes(tmp_path))
    assert rolling._is_growing(path)
    assert path in sources.claimed()
    sources.drop(path)
    assert path not in sources.claimed()
    assert not os.path.exists(path)


def test_a_segment_is_written_to_the_file_that_was_made_whatever_its_name_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, make = tmp_path / "victim", sources._new_path
    victim.write_text("of root")

    def swapped(folder: bytes) -> bytes:
        path = make(folder)
        os.unlink(path)
        os.symlink(victim, path)
        return path

    class Silent:
        attr = b""

        def drain(self) -> list[bytes]:
            return [b"samples"]

    monkeypatch.setattr(sources, "_new_path", swapped)
    monkeypatch.setattr(sources, "head", lambda _: [b"head"])
    path = sources.OwnSource(Silent()).segment(os.fsencode(tmp_path), lambda _: True, lambda: False)  # type: ignore[arg-type]
    sources.drop(path)
    assert victim.read_text() == "of root"
