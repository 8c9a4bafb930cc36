# SPDX-License-Identifier: Apache-2.0
"""perf as a recorder of the whole machine: one process a segment, which writes its stream to a file and ends when told, or with us.

What it runs beside is `cat` on a pipe that only we hold: closing it ends the recording, and so does our death, however it comes.
perf starts it when it samples, so that its first word says that sampling has begun. Both are in a process group of their own:
Ctrl-C at a terminal is for us, who let it write what it has.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from typing import IO, NamedTuple

_END_SECONDS = 30.0
_MOST_COMPLAINT = 400
_BEGUN = "sampling has begun"
_BESIDE = ("sh", "-c", f"echo {_BEGUN} >&2; exec cat >/dev/null")
_OPTIONS = ("-q", "-a", "-g", "-e", "cpu-clock", "-k", "CLOCK_MONOTONIC", "--no-bpf-event", "-m", "256", "-o", "-")
_WISHES = (("--buildid-mmap", "--all-cgroups"), ("--all-cgroups",), ("--buildid-mmap",), ())
"""What is worth having where this perf and this kernel know it: which build a file was of, and the cgroup of each sample."""
_TRY_SECONDS = 30.0


def is_installed() -> bool:
    return shutil.which("perf") is not None


class Able(NamedTuple):
    """What perf can do here, tried out."""

    options: tuple[str, ...]
    complaint: str = ""
    """Why it cannot sample; empty where it can."""


def try_perf(rate_hz: int) -> Able:
    """Samples for the moment that `true` takes, as a recording would."""
    complaint = "perf is not installed"
    for options in _WISHES if is_installed() else ():
        try:
            done = subprocess.run(
                _command(rate_hz, options, ("true",)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=_environment(),
                timeout=_TRY_SECONDS,
                check=False,
                process_group=0,
            )
        except subprocess.TimeoutExpired:
            return Able((), f"it did not end within {_TRY_SECONDS:g} seconds")
        except OSError as error:
            return Able((), (error.strerror or str(error)).lower())
        if done.returncode == 0:
            return Able(options)
        complaint = _first_sentence(done.stderr[:_MOST_COMPLAINT]) or f"it ended with {done.returncode}"
    return Able((), complaint)


def _command(rate_hz: int, options: tuple[str, ...], beside: tuple[str, ...]) -> list[str]:
    return [shutil.which("perf") or "perf", "record", *_OPTIONS, *options, "-F", str(rate_hz), "--", *beside]


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C"}


def _first_sentence(said: bytes) -> str:
    words = said.decode("utf-8", "replace").replace(_BEGUN, "").split()
    return " ".join(words).removeprefix("Error: ").partition(". ")[0].rstrip(".")


@dataclass(slots=True)
class PerfRecord:
    """A running `perf record`."""

    _process: subprocess.Popen[bytes]
    _complaints: IO[bytes]

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def has_begun(self) -> bool:
        return _BEGUN.encode() in os.pread(self._complaints.fileno(), _MOST_COMPLAINT, 0)

    def end(self) -> str:
        """Lets it write what it has. The first sentence of its complaint when it failed, else nothing."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            status = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        with self._complaints as complaints:
            complaints.seek(0)
            first = _first_sentence(complaints.read(_MOST_COMPLAINT))
        ended = f"it ended with {status}" if status > 0 else f"signal {-status} ended it"
        return (first or ended) if status else ""


def start_perf_record(output: int, rate_hz: int, options: tuple[str, ...] = ()) -> PerfRecord:
    """Samples every core into a file that is open. Raises OSError where perf cannot be started."""
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the recording ends)
    try:
        process = subprocess.Popen(
            _command(rate_hz, options, _BESIDE),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=complaints,
            env=_environment(),
            process_group=0,
        )
    except OSError:
        complaints.close()
        raise
    return PerfRecord(process, complaints)
