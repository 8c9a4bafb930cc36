# SPDX-License-Identifier: Apache-2.0
"""The incident from cause to cure, on this kernel: every stage asserts, everything is removed.

An unused agent crash-loops and leaves a file on a tmpfs each time; its dead cgroups lie below the parent whose limit a
neighbour works under. Then our own commands are run as a person would: doctor, plan, apply, verify.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from zombiescope.errors import ActionFailedError, ActionUndoneError, ObservationError, reason_of
from zombiescope.lab.hierarchy import write_file
from zombiescope.lab.places import disk_folder, make_run_folder
from zombiescope.lab.runs import Run
from zombiescope.lab.scenes import LabScene, Neighbour, Pace, UnitScene, sweep
from zombiescope.lab.truth import Stage

CELL = "6.1-v2"
_PROGRAMS = ("qemu-system-x86_64", "mke2fs", "apt-get", "setpriv")
_NOT_BUILT, _NOT_FINISHED, _NEVER_STARTED = 3, 124, 125
_DOCUMENT = "document.json"


class MachineOrder(NamedTuple):
    cell: str
    words: tuple[str, ...]
    """Of our command, without the program's name."""
    processor_seconds: float
    """What the machine may take."""


def run_in_machine(order: MachineOrder, tell: Callable[[str], None], tick: Callable[[str], None]) -> dict[str, Any]:
    """`tell` gets each line that the command says inside, `tick` what is being done, several times a second."""
    checkout = find_checkout()
    out = checkout / "build" / "vm" / "incident" / order.cell
    out.parent.mkdir(parents=True, exist_ok=True)
    code, words = _boot(checkout, order, out, tell, tick)
    if code != 0:
        raise _failure(code, order.cell, words)
    return dict(json.loads((out / _DOCUMENT).read_text()))


def find_checkout() -> Path:
    """Where the recipe is; a clear refusal where it is not, or where a program is missing."""
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / "tests" / "vm" / "run.py").is_file():
        raise ObservationError(
            "cannot boot a throw-away machine",
            "the recipe of its image is part of the sources, not of the installed package",
            "in a clone of the sources: make .venv/.ready && .venv/bin/zombiescope lab incident --vm",
        )
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        raise ObservationError(
            "cannot boot a throw-away machine",
            f"not installed: {', '.join(missing)}",
            f"{checkout}/tools/install-packages   (or: apt install qemu-system-x86 e2fsprogs util-linux)",
        )
    return checkout


def _boot(
    checkout: Path, order: MachineOrder, out: Path, tell: Callable[[str], None], tick: Callable[[str], None]
) -> tuple[int, str]:
    inside = f"python3 -m zombiescope {shlex.join(order.words)} --json >/out/{_DOCUMENT}"
    (out / "live").unlink(missing_ok=True)
    command = [
        "setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "tests.vm.run",
        "--cell", order.cell, "--out", str(out), "--timeout", f"{order.processor_seconds:.0f}", "--", "sh", "-c", inside,
    ]  # fmt: skip
    last = f"building or booting {order.cell}"
    told = out.parent / f"{order.cell}.words"
    with _machine(command, checkout, told) as machine:
        began = time.monotonic()
        lines = _Growing(out / "live")
        while True:
            ended = machine.poll() is not None
            for line in lines.more():
                tell(line)
                last = line
            if ended:
                break
            tick(f"{time.monotonic() - began:.0f} s in the machine; last: {last}")
            time.sleep(0.2)
    return machine.returncode, told.read_text(errors="replace").strip()


@contextmanager
def _machine(command: list[str], checkout: Path, words: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Ended with us, however we end, and with it the machine: each asks the kernel to die with whoever started it."""
    with words.open("wb") as output:
        machine = subprocess.Popen(command, cwd=checkout, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield machine
    finally:
        if machine.poll() is None:
            machine.terminate()
        machine.wait()


class _Growing:
    """Whole lines of a file that another process writes."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0

    def more(self) -> list[str]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except OSError:
            return []
        whole, end, _ = data.rpartition(b"\n")
        self._at += len(whole + end)
        return [line.rstrip() for line in whole.decode(errors="replace").splitlines() if line.strip()]


def _failure(code: int, cell: str, words: str) -> ObservationError | ActionUndoneError:
    """The machine is gone whatever happened: nothing is left to undo."""
    lines = words.splitlines()
    errors = [at for at, line in enumerate(lines) if line.startswith("error:")]
    picked = lines[errors[-1] : errors[-1] + 2] if errors else lines[-3:]
    said = "; ".join(" ".join(line.split()) for line in picked)[-600:] or f"exit code {code}"
    if code in {_NOT_BUILT, _NEVER_STARTED} or "invalid choice" in words:
        return ObservationError(f"cannot boot the throw-away machine {cell}", said, "tests/vm/README.md")
    if code == _NOT_FINISHED:
        return ActionUndoneError(f"the machine {cell} was cut off", said, "a smaller --count")
    return ActionUndoneError(
        f"the command failed in the machine {cell}",
        said,
        "zombiescope lab incident, without --vm, shows the same stages here",
    )


PODS = 24
NIC_LINES = (
    "ena 0000:00:05.0 zslab0: napi handler hasn't been called for a long time but is scheduled",
    "ena 0000:00:05.0 zslab0: Trigger reset is on",
)
RECOVERED, _SUFFERS, _SATURATED = 0.9, 0.8, 0.9
_TRIES = 12
_LARGE = 1000
"""From here on doctor calls the stock a problem by itself."""
_UNTOLD = frozenset({"none", "unknown", "nic-reset", "starved-softirq", "saturated-core", "reclaim-pressure"})
"""No origin is named: nothing, or what hurts without a cause, such as the driver's line that is simulated here."""


class IncidentOrder(NamedTuple):
    zombies: int
    seconds: float = 4.0
    """Of each measurement."""
    window: float = 10.0
    """Of `verify`."""
    real_unit: bool = False
    """A systemd unit crash-loops, not a process of ours."""


Told = tuple[str, dict[str, Any], dict[str, str]]


class Incident:
    """One stage after the other; the first that is not as it must be ends it."""

    def __init__(self, run: Run, order: IncidentOrder, say: Callable[[Stage], None]) -> None:
        self._run, self._order, self._say = run, order, say
        self.scene = UnitScene(run) if order.real_unit else LabScene(run)
        folder = disk_folder(run.name)
        run.journal.intend("folder", path=folder)
        make_run_folder(folder)
        self._neighbour = Neighbour(run.hierarchy, self.scene.node, f"{folder}/neighbour", max(os.sched_getaffinity(0)))
        self._state = f"{folder}/state"
        self._has_line = False
        self._before: Pace | None = None

    def play(self, doing: Callable[[str], None]) -> None:
        """`doing` is told what begins, and how far it is."""

        def advance(made: int) -> None:
            doing(f"an unused agent crash-loops: {made:,} of {self._order.zombies:,}")

        stages: dict[str, Callable[[], Told]] = {
            "the neighbour before": self._measure_before,
            "an unused agent crash-loops": lambda: self._crash_loop(advance),
            "a sweep as kubelet does it": self._sweep,
            "the neighbour beside the zombies": self._measure_during,
            "the network driver's line, simulated": self._nic_line,
            "doctor": self._doctor,
            "apply": self._apply,
            "verify": self._verify,
            "the neighbour after the cure": self._measure_after,
        }
        for name, work in stages.items():
            doing(name)
            began = time.monotonic()
            told, figures, outputs = work()
            self._say(Stage(name, time.monotonic() - began, told, figures, outputs))

    def _measure_before(self) -> Told:
        self.scene.set_up()
        for number in range(PODS):
            self._run.hierarchy.make(f"{self.scene.node}/pod-{number}")
        self._neighbour.prepare()
        self._before = max((self._neighbour.measure(self._order.seconds) for _ in range(2)), key=attrgetter("work"))
        return _pace(self._before), self._before._asdict(), {}

    def _crash_loop(self, advance: Callable[[int], None]) -> Told:
        made = self.scene.crash_loop(self._order.zombies, advance)
        _must(made >= self._order.zombies, "the agent did not crash as often as asked", f"{made} times")
        return f"{made:,} dead memory cgroups below one parent", {"zombies": made}, {}

    def _sweep(self) -> Told:
        swept = sweep(self._run.hierarchy, self.scene.node)
        return f"{swept.cgroups} live cgroups read in {1000 * swept.seconds:.1f} ms", swept._asdict(), {}

    def _measure_during(self) -> Told:
        assert self._before is not None
        pace = self._neighbour.measure(max(self._order.seconds, 6.0))
        share = pace.work / self._before.work
        _must(
            share < _SUFFERS, "the neighbour did not suffer", f"{100 * share:.0f} % of its work for the same CPU time"
        )
        speed = pace.megabytes_per_second / self._before.megabytes_per_second
        told = f"{_pace(pace)}: {100 * speed:.0f} % of its speed, {100 * share:.0f} % of its work for the same CPU time"
        held = pace.system_share >= _SATURATED
        if held:
            told += f"; core {self._neighbour.core} is saturated by the kernel"
        return told, {**pace._asdict(), "work_share": share, "speed_share": speed, "core_saturated": held}, {}

    def _nic_line(self) -> Told:
        """User space cannot write as the kernel: the line carries another facility, and doctor is told to believe it."""
        try:
            for line in NIC_LINES:
                write_file("/dev/kmsg", line.encode())
        except OSError as error:
            return f"not written: {reason_of(error)}", {"written": False}, {}
        self._has_line = True
        return NIC_LINES[0], {"written": True}, {}

    def _doctor(self) -> Told:
        """While the neighbour works: the cost is to be seen, not only the stock. Who and what is to be named is known here."""
        words = ("doctor", "--seconds", "5", "--believe-lab")
        with self._neighbour.at_work():
            text, document = self._printed(*words), self._asked("doctor", "--seconds", "4", "--believe-lab")
        present = [finding["id"] for finding in document["findings"] if finding["verdict"] == "present"]
        _must("zombie-population" in present or self._order.zombies < _LARGE, "doctor missed the zombies", str(present))
        _must("nic-reset" in present or not self._has_line, "doctor missed the driver's line", str(present))
        verdict = text.strip().partition("\n")[0]
        self._must_be_right(document, verdict)
        figures = {name: document[name] for name in ("origin", "maker", "first_remedy")}
        figures = {"verdict": verdict, "present": present, **figures}
        return f"{verdict} ({', '.join(present)})", figures, {_typed(words): text}

    def _must_be_right(self, document: dict[str, Any], verdict: str) -> None:
        """The same origin, maker and first remedy at every size. Of a stock too small to be judged no origin need be named, but
        never another."""
        origin, maker, remedy = (str(document[name]) for name in ("origin", "maker", "first_remedy"))
        right, may_be_untold = self.scene.truth, self._order.zombies < _LARGE and not self._order.real_unit
        is_right = origin == right.origin and right.maker in maker and remedy in right.first_remedies
        is_right = is_right or (may_be_untold and origin in _UNTOLD)
        _must(is_right, f"doctor named {origin} / {maker} / {remedy} for {right.origin}", verdict)

    def _apply(self) -> Told:
        """The plan's own words of consent are given: all of it is the lab's, and nobody wants it kept."""
        where = ("--below", self.scene.node, "--seconds", f"{self.scene.watch_seconds:.0f}")
        plan = self._asked("plan", *where)
        outputs = {_typed(("plan", *where)): self._printed("plan", *where)}
        steps = [step for step in plan["steps"] if not step["instead_of"]]
        consents = [word for step in steps if step["needs_consent"] for word in ("--consent", step["name"])]
        words = ("apply", "--yes", *where, "--window", "0", *consents)
        outputs[_typed(words)] = self._printed(*words, "--state", self._state)
        freed = sum(entry["freed"] or 0 for entry in self._ended_steps())
        foreseen = sum((step["expected"] or {"zombies_freed": 0})["zombies_freed"] or 0 for step in steps)
        # A real unit goes on between the plan that is shown and the one that is obeyed: its lives come on top.
        most = float("inf") if self._order.real_unit else 1.1 * foreseen
        _must(
            freed > 0 and 0.9 * foreseen <= freed <= most,
            "what was freed is not what was foreseen",
            f"{freed:,} of {foreseen:,}",
        )
        _must(self.scene.has_ended(), "the maker was not stopped", "it still runs")
        return f"{freed:,} zombies freed, {foreseen:,} foreseen", {"freed": freed, "foreseen": foreseen}, outputs

    def _ended_steps(self) -> list[dict[str, Any]]:
        """From the journal of the action, whose form is promised: the text is for a person."""
        (journal,) = Path(self._state, "actions").glob("*/journal.jsonl")
        entries = map(json.loads, journal.read_text().splitlines())
        return [entry for entry in entries if entry["entry"] == "step-end" and entry["status"] == "done"]

    def _verify(self) -> Told:
        words = ("verify", "--window", f"{self._order.window:.0f}")
        text = self._printed(*words, "--state", self._state)
        told = " ".join(text.strip().partition("\n\n")[0].split())
        _must(told.startswith("held: "), "the cure did not hold", told)
        return told, {"verdict": "held"}, {_typed(words): text}

    def _measure_after(self) -> Told:
        """The best of a few: dead cgroups are released in the background for a moment."""
        assert self._before is not None
        best = self._neighbour.measure(self._order.seconds)
        for _ in range(_TRIES - 1):
            if best.work >= RECOVERED * self._before.work:
                break
            best = max(best, self._neighbour.measure(self._order.seconds), key=attrgetter("work"))
        share = best.work / self._before.work
        speed = best.megabytes_per_second / self._before.megabytes_per_second
        _must(share >= RECOVERED, "the neighbour did not recover", f"{100 * share:.0f} % of its work before")
        told = f"{_pace(best)}: {100 * speed:.0f} % of its speed, {100 * share:.0f} % of its work of before"
        return told, {**best._asdict(), "work_share": share, "speed_share": speed}, {}

    def _asked(self, *words: str) -> dict[str, Any]:
        return dict(json.loads(self._printed(*words, "--json")))

    def _printed(self, *words: str) -> str:
        """Our own command, as a person types it. `-P`: never a package of that name that lies in the folder we are in."""
        program = [sys.argv[0]] if sys.argv[0].endswith(".pyz") else ["-m", "zombiescope"]
        done = subprocess.run(
            [sys.executable, "-P", *program, *words],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": "120"},
        )
        if done.returncode != 0:
            raise ActionFailedError(
                f"cannot go on with the incident: {words[0]} failed",
                (done.stderr or done.stdout).strip()[-500:] or f"exit code {done.returncode}",
                "zombiescope lab clean",
            )
        return done.stdout


def _typed(words: tuple[str, ...]) -> str:
    return " ".join(("zombiescope", *words))


def _pace(pace: Pace) -> str:
    return (
        f"{pace.megabytes_per_second:,.0f} MB/s, {pace.megabytes_per_cpu_second:,.0f} MB per second of CPU,"
        f" worst MiB {1000 * pace.worst_seconds:,.0f} ms, {100 * pace.system_share:.0f} % of its core in the kernel"
    )


def _must(is_so: bool, what: str, seen: str) -> None:
    if not is_so:
        raise ActionFailedError(f"the incident did not go as it must: {what}", seen, "zombiescope lab clean")
