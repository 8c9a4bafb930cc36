# SPDX-License-Identifier: Apache-2.0
"""The process that makes a run's zombies and, where something must be held, stays; and the loops it makes them with, which never
run in the command.

It is started by the command, named and journalled before it may begin, and ends by itself when the command dies before saying
`keep`. One that stays sits in the root cgroup, in a session of its own, until `lab clean`. The hopping process moves itself from
cgroup to cgroup and then ends, so that no memory of its own stays charged to the dead. Before anything hops, every mapped file is
read: a page of a library first touched inside a cgroup would be charged there and become a pin nobody asked for.
"""

import gc
import json
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NoReturn

from zombiescope.errors import ActionFailedError, ZombiescopeError
from zombiescope.host.own_folder import open_nothing
from zombiescope.lab.cleaning import drain_pages
from zombiescope.lab.pins.pin import Bench, Pin
from zombiescope.lab.pins.references import Unreaped, Visible
from zombiescope.lab.places import refusal
from zombiescope.lab.processes import die_with_parent, in_child
from zombiescope.lab.truth import Made, RunJournal

KID = "kid"
Tell = Callable[[list[Made]], None]


def _paths(bench: Bench) -> Iterator[str]:
    return (f"{bench.subtree}/z{index:06d}" for index in range(bench.count))


def make_unreaped(pin: Pin, tell: Tell) -> None:
    """The calling process stays and never waits for the children that end inside."""
    bench = pin.bench
    for index, path in enumerate(_paths(bench)):
        cgroup_id = bench.hierarchy.make(path)
        try:
            child = in_child(partial(bench.hierarchy.enter, path))
        except OSError as error:
            raise ActionFailedError(
                f"cannot start child {index + 1} of {bench.count}",
                f"{error.strerror}: the limit on processes is reached",
                "a smaller --count; cat /proc/sys/kernel/pid_max",
            ) from error
        # Ended but not reaped: WNOWAIT leaves it as it is.
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        if ended is None or ended.si_status != 0:
            raise ActionFailedError(
                f"cannot enter the cgroup {path}", "the kernel refused to move a process there", "zombiescope lab clean"
            )
        bench.hierarchy.remove(path)
        tell([Made(cgroup_id, path, pin.kind, None, 0)])


def hop(pin: Pin, tell: Tell) -> None:
    """Charges one cgroup after the other and removes each as soon as the next is entered; the last one is left.

    Of a pin that dies last all are left.
    """
    bench = pin.bench
    gc.disable()
    previous: str | None = None
    for index, path in enumerate(_paths(bench)):
        made, inside = _make_place(pin, index, path)
        folder = bench.hierarchy.folder(inside)
        pin.arm(folder)
        bench.hierarchy.enter(inside)
        pin.charge(index, folder)
        if previous is not None and not pin.dies_last:
            bury(bench, pin, previous)
        tell(made)
        previous = path
    pin.hand_over()


def _make_place(pin: Pin, index: int, path: str) -> tuple[list[Made], str]:
    hierarchy = pin.bench.hierarchy
    if not pin.is_nested:
        return [Made(hierarchy.make(path), path, pin.kind, pin.file(index), pin.bytes_each)], path
    kid = f"{path}/{KID}"
    outer = Made(hierarchy.make(path), path, pin.kind, None, 0)
    hierarchy.make_parents(path)
    return [outer, Made(hierarchy.make(kid), kid, "tmpfs", pin.file(index), pin.bytes_each)], kid


def bury(bench: Bench, pin: Pin, path: str) -> None:
    if pin.is_nested:
        bench.hierarchy.remove(f"{path}/{KID}")
    bench.hierarchy.remove(path)


def read_mapped_files() -> None:
    """Brings every file this process has mapped into the page cache."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    for name in {line.split(None, 5)[5] for line in lines if "/" in line}:
        with suppress(OSError), open(name, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


Work = Callable[["Report"], None]


class Report:
    """The way back to the command: one JSON line a message."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def made(self, rows: list[Made]) -> None:
        for row in rows:
            self.send("made", asdict(row))

    def failed(self, error: ZombiescopeError) -> None:
        self.send("failed", [error.what, error.why, error.hint])

    def send(self, what: str, value: object = None) -> None:
        os.write(self._descriptor, (json.dumps([what, value]) + "\n").encode())


class Staff:
    """The command's end of it."""

    def __init__(self, journal: RunJournal, work: Work, *, stays: bool) -> None:
        report_read, report_write = os.pipe()
        order_read, order_write = os.pipe()
        command = os.getpid()
        self._child = os.fork()
        if self._child == 0:
            os.close(report_read)
            os.close(order_write)
            _become_staff(work, report_write, order_read, None if stays else command)
        os.close(report_write)
        os.close(order_read)
        self._orders, self._reports, self._stays = order_write, os.fdopen(report_read, "rb"), stays
        if stays:
            os.waitpid(self._child, 0)
        if (hello := self._next()) is None:
            raise ActionFailedError(
                "cannot begin the lab run", "its working process ended at once", "zombiescope lab clean"
            )
        assert isinstance(hello[1], int)
        journal.intend_process("staff", hello[1])
        os.write(self._orders, b"go\n")

    def follow(self, advance: Callable[[int], None]) -> list[Made]:
        """Collects what is made until the work is done. Raises what went wrong over there."""
        rows: list[Made] = []
        while (message := self._next()) is not None:
            what, value = message
            if what == "made":
                assert isinstance(value, dict)
                rows.append(Made(**value))
                advance(len(rows))
            elif what == "failed":
                assert isinstance(value, list)
                raise ActionFailedError(*value)
            elif what == "bug":
                raise RuntimeError(str(value))
            else:
                return rows
        raise ActionFailedError(
            "cannot finish the lab run", "its working process was ended from outside", "zombiescope lab clean"
        )

    def keep(self) -> None:
        """Lets a process that stays go on without us; the other kind has ended already."""
        if self._stays:
            os.write(self._orders, b"keep\n")
        os.close(self._orders)
        self._reports.close()
        if not self._stays:
            os.waitpid(self._child, 0)

    def _next(self) -> tuple[str, object] | None:
        line = self._reports.readline()
        return tuple(json.loads(line)) if line.endswith(b"\n") else None


def all_made(journal: RunJournal, work: Work, advance: Callable[[int], None], *, stays: bool) -> list[Made]:
    staff = Staff(journal, work, stays=stays)
    made = staff.follow(advance)
    staff.keep()
    return made


def _become_staff(work: Work, report_write: int, order_read: int, parent: int | None) -> NoReturn:
    """`parent`: the command to die with; None: leave it, and be nobody's child."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        if parent is not None:
            die_with_parent(parent)
        os.setsid()
        if parent is None and os.fork() != 0:
            os._exit(0)
        nothing = open_nothing()
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.chdir("/")
        code = _serve(work, Report(report_write), order_read)
    except BrokenPipeError:
        code = 1
    finally:
        os._exit(code)


def _serve(work: Work, report: Report, order_read: int) -> int:
    report.send("hello", os.getpid())
    if os.read(order_read, 3) != b"go\n" or not _is_done(report, lambda: work(report)):
        return 1
    report.send("done")
    if os.read(order_read, 5) == b"keep\n":
        _stay()
    return 0


def _is_done(report: Report, work: Callable[[], None]) -> bool:
    """What went wrong is told to the command."""
    try:
        work()
    except ZombiescopeError as error:
        report.failed(error)
    except OSError as error:
        report.failed(refusal(f"cannot make the next zombie ({error.filename or 'kernel object'})", error))
    except Exception:  # noqa: BLE001 - the command is the one to report a bug
        report.send("bug", traceback.format_exc())
    else:
        return True
    return False


def _stay() -> None:
    """Until SIGTERM. Children are reaped on the way out: not every first process of a container would do it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.sigwait({signal.SIGTERM})
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def zombie_work(pin: Pin) -> Work:
    """What the staff does for `lab zombies`."""

    def work(report: Report) -> None:
        bench = pin.bench
        read_mapped_files()
        pin.prepare(range(bench.count))
        if pin.is_held:
            # Whoever started us may end everything in their own cgroup; the root is nobody's. A container may refuse it.
            with suppress(OSError):
                bench.hierarchy.enter("/")
        if isinstance(pin, Visible):
            for path in _paths(bench):
                report.made([Made(bench.hierarchy.make(path), path, pin.kind, None, 0)])
        elif isinstance(pin, Unreaped):
            make_unreaped(pin, report.made)
        else:
            _hop_in_a_child(pin, report)

    return work


def _hop_in_a_child(pin: Pin, report: Report) -> None:
    staff = os.getpid()

    def hop_until_done() -> None:
        die_with_parent(staff)
        hop(pin, report.made)

    child = in_child(lambda: _is_done(report, hop_until_done))
    pin.adopt()
    if os.waitpid(child, 0)[1] != 0:
        # It has told why; the command stops listening there.
        raise ActionFailedError(
            "cannot finish the lab run", "its hopping process was ended from outside", "zombiescope lab clean"
        )
    bench = pin.bench
    if pin.dies_last:
        drain_pages()  # what the hopping process had in a CPU's batch is charged to these cgroups until then
    for index, path in list(enumerate(_paths(bench)))[0 if pin.dies_last else -1 :]:
        pin.finish(index, bench.hierarchy.folder(path))
        bury(bench, pin, path)
