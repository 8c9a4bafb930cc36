# SPDX-License-Identifier: Apache-2.0
"""A signal is heard where the kernel may take long, and only where it can be taken back; children end with their parent."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from zombiescope.execution.surprise import Attention, InterruptedActionError
from zombiescope.host.writes import Writer

SECONDS = 60.0


@contextmanager
def signals_until_over(which: signal.Signals = signal.SIGTERM) -> Iterator[None]:
    """Again and again: one that comes just before a system call does not interrupt it."""
    over = threading.Event()

    def send() -> None:
        while not over.wait(0.05):
            os.kill(os.getpid(), which)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()


@pytest.fixture
def endless(tmp_path: Path) -> bytes:
    """A file whose writer waits for ever: nobody reads this pipe."""
    os.mkfifo(tmp_path / "pipe")
    return os.fsencode(tmp_path / "pipe")


@pytest.mark.parametrize("how", ["set_file", "set_file_in_child"])
def test_a_write_that_takes_for_ever_is_interrupted(endless: bytes, how: str) -> None:
    with Attention() as attention:
        writer = Writer(fault=attention.point)
        works: dict[str, Callable[[], object]] = {
            "set_file": lambda: writer.set_file(endless, b"0"),
            "set_file_in_child": lambda: writer.set_file_in_child(endless, b"0", SECONDS),
        }
        with pytest.raises(InterruptedActionError, match="SIGTERM"), signals_until_over():
            works[how]()
        with pytest.raises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)


def test_a_child_that_writes_does_not_outlive_its_parent(endless: bytes) -> None:
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        os.close(reading)
        Writer().set_file_in_child(
            endless, b"0", SECONDS
        )  # the child inherits the pipe's end, and holds it while it lives
        os._exit(0)
    os.close(writing)
    children = Path(f"/proc/{parent}/task/{parent}/children")
    end = time.monotonic() + SECONDS
    while not children.read_text().strip():
        assert time.monotonic() < end
        time.sleep(0.01)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert os.read(reading, 1) == b"", "the last holder is gone"
    os.close(reading)


def test_what_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Attention() as attention:
            os.kill(os.getpid(), signal.SIGHUP)
            attention.point("before:set_file")
        assert attention.heard is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_it_is_raised_once_and_again_only_between_steps() -> None:
    with Attention() as attention:
        os.kill(os.getpid(), signal.SIGHUP)
        with pytest.raises(InterruptedActionError):
            attention.point("after:place_file")
        attention.point("before:set_file")  # the way back of the very change that was under way
        with pytest.raises(InterruptedActionError):
            attention.point("journal:step-end")


def test_what_a_reader_swallowed_is_raised_when_it_is_done() -> None:
    with Attention() as attention, pytest.raises(InterruptedActionError), attention.at_ease():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(SECONDS)
        except InterruptedActionError:
            pass


def test_what_a_callback_swallowed_is_raised_when_the_change_is_done() -> None:
    """Such as one of Python's own hooks: the change ends as if nothing had happened."""
    with Attention() as attention:
        attention.point("before:set_file")
        with suppress(InterruptedActionError):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(SECONDS)
        with pytest.raises(InterruptedActionError):
            attention.point("after:set_file")
        attention.point("before:set_file")  # on the way back
        attention.point("after:set_file")


def test_while_it_looks_a_signal_is_heard_at_once() -> None:
    with Attention() as attention, pytest.raises(InterruptedActionError), signals_until_over(), attention.at_ease():
        time.sleep(SECONDS)
