# SPDX-License-Identifier: Apache-2.0
"""The incident from cause to cure, on this kernel, in a subtree of the lab: every stage asserts, everything is removed.

An unused agent crash-loops and leaves a file on a tmpfs each time; its dead cgroups lie below the parent whose limit a
neighbour works under. Then our own commands are run as a person would: doctor, apply, verify.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from zombiescope.errors import ActionFailedError
from zombiescope.lab.hierarchy import write_file
from zombiescope.lab.leak import LeakOrder, leak
from zombiescope.lab.neighbour import Neighbour, Pace
from zombiescope.lab.places import disk_folder, make_run_folder
from zombiescope.lab.runs import Run
from zombiescope.lab.sweeper import sweep
from zombiescope.lab.truth import Truth

AGENT = "unused-agent"
PODS = 24
NIC_LINES = (
    "ena 0000:00:05.0 zslab0: napi handler hasn't been called for a long time but is scheduled",
    "ena 0000:00:05.0 zslab0: Trigger reset is on",
)
_FASTEST_PER_MINUTE = 60_000.0
RECOVERED = 0.9
_TRIES = 4


class IncidentOrder(NamedTuple):
    zombies: int
    seconds: float = 4.0
    """Of each measurement."""
    window: float = 10.0
    """Of `verify`."""


class Stage(NamedTuple):
    name: str
    seconds: float
    told: str
    figures: dict[str, Any]
    output: str = ""
    """What our own command printed."""


class Incident:
    """One stage after the other; the first that is not as it must be ends it."""

    def __init__(self, run: Run, order: IncidentOrder, say: Callable[[Stage], None]) -> None:
        self._run, self._order, self._say = run, order, say
        self.node = f"{run.subtree}/node"
        folder = disk_folder(run.name)
        run.journal.intend("folder", path=folder)
        make_run_folder(folder)
        core = max(os.sched_getaffinity(0))
        self._neighbour = Neighbour(run.hierarchy, self.node, f"{folder}/neighbour", core)
        self._state = f"{folder}/state"
        self.stages: list[Stage] = []
        self._has_line = False
        self._before: Pace | None = None
        self._during: Pace | None = None

    def play(self, advance: Callable[[int], None]) -> Truth:
        self._stage("the neighbour before", self._measure_before)
        truth: list[Truth] = []
        self._stage("an unused agent crash-loops", lambda: self._crash_loop(truth, advance))
        self._stage("a sweep as kubelet does it", self._sweep)
        self._stage("the neighbour beside the zombies", self._measure_during)
        self._stage("the network driver's line, simulated", self._nic_line)
        self._stage("doctor", self._doctor)
        self._stage("apply", self._apply)
        self._stage("verify", self._verify)
        self._stage("the neighbour after the cure", self._measure_after)
        return truth[0]

    def _stage(self, name: str, work: Callable[[], tuple[str, dict[str, Any], str]]) -> None:
        began = time.monotonic()
        told, figures, output = work()
        stage = Stage(name, time.monotonic() - began, told, figures, output)
        self.stages.append(stage)
        self._say(stage)

    def _measure_before(self) -> tuple[str, dict[str, Any], str]:
        hierarchy = self._run.hierarchy
        hierarchy.make_parents(self.node)
        for number in range(PODS):
            hierarchy.make(f"{self.node}/pod-{number}")
        self._neighbour.prepare()
        self._before = max((self._neighbour.measure(self._order.seconds) for _ in range(2)), key=_by_rate)
        return _pace(self._before), self._before._asdict(), ""

    def _crash_loop(self, truth: list[Truth], advance: Callable[[int], None]) -> tuple[str, dict[str, Any], str]:
        inside = self._run_below("node")
        order = LeakOrder(
            AGENT, _FASTEST_PER_MINUTE, 60 * self._order.zombies / _FASTEST_PER_MINUTE, "service", "tmpfs"
        )
        truth.append(leak(inside, order, advance))
        made = len(truth[0].made)
        _must(
            made == self._order.zombies, "the agent did not crash as often as asked", f"{made} of {self._order.zombies}"
        )
        return f"{made:,} dead memory cgroups below one parent", {"zombies": made}, ""

    def _run_below(self, name: str) -> Run:
        return _Below(self._run.name, self._run.hierarchy, self._run.journal, name)

    def _sweep(self) -> tuple[str, dict[str, Any], str]:
        swept = sweep(self._run.hierarchy, self._run.subtree)
        told = f"{swept.cgroups} live cgroups read in {1000 * swept.seconds:.1f} ms"
        return told, swept._asdict(), ""

    def _measure_during(self) -> tuple[str, dict[str, Any], str]:
        assert self._before is not None
        self._during = self._neighbour.measure(max(self._order.seconds, 6.0))
        share = self._during.megabytes_per_cpu_second / self._before.megabytes_per_cpu_second
        _must(share < 0.8, "the neighbour did not suffer", f"{100 * share:.0f} % of its work for the same CPU time")
        return _pace(self._during), {**self._during._asdict(), "work_share": share}, ""

    def _doctor(self) -> tuple[str, dict[str, Any], str]:
        """While the neighbour works: the cost is to be seen, not only the stock."""
        with self._neighbour.at_work():
            answer = self._asked("doctor", "--seconds", "5", "--believe-lab")
            text = self._printed("doctor", "--seconds", "5", "--believe-lab")
        present = [finding["id"] for finding in answer["findings"] if finding["verdict"] == "present"]
        _must("zombie-population" in present or self._order.zombies < 1000, "doctor missed the zombies", str(present))
        _must("nic-reset" in present or not self._has_line, "doctor missed the driver's line", str(present))
        return f"{answer['verdict']} ({', '.join(present)})", {"present": present}, text

    def _nic_line(self) -> tuple[str, dict[str, Any], str]:
        """User space cannot write as the kernel: the line carries another facility, and doctor is told to believe it."""
        try:
            for line in NIC_LINES:
                write_file("/dev/kmsg", line.encode())
        except OSError as error:
            return f"not written: {(error.strerror or str(error)).lower()}", {"written": False}, ""
        self._has_line = True
        return NIC_LINES[0], {"written": True}, ""

    def _apply(self) -> tuple[str, dict[str, Any], str]:
        """The plan's own words of consent are given: all of it is the lab's."""
        where = ("--below", self.node, "--seconds", "1")
        plan = self._asked("plan", *where)
        consents = [word for step in plan["steps"] if step["needs_consent"] for word in ("--consent", step["name"])]
        text = self._printed("plan", *where)
        receipt = self._asked("apply", "--yes", *where, "--window", "0", "--state", self._state, *consents)
        freed = sum(step["freed"]["zombies"] or 0 for step in receipt["steps"])
        foreseen = sum((step["expected"] or {"zombies_freed": 0})["zombies_freed"] or 0 for step in plan["steps"])
        close = abs(freed - foreseen) <= 0.1 * max(foreseen, 1)
        _must(freed > 0 and close, "what was freed is not what was foreseen", f"{freed:,} of {foreseen:,}")
        return f"{freed:,} zombies freed, {foreseen:,} foreseen", {"freed": freed, "foreseen": foreseen}, text

    def _verify(self) -> tuple[str, dict[str, Any], str]:
        answer = self._asked("verify", "--state", self._state, "--window", str(self._order.window))
        _must(answer["verdict"] == "held", "the cure did not hold", f"{answer['verdict']}: {answer['why']}")
        return f"{answer['verdict']}: {answer['why']}", {"verdict": answer["verdict"]}, ""

    def _measure_after(self) -> tuple[str, dict[str, Any], str]:
        """The best of a few: dead cgroups are released in the background for a moment."""
        assert self._before is not None
        best, share = None, 0.0
        for _ in range(_TRIES):
            pace = self._neighbour.measure(self._order.seconds)
            if best is None or _by_rate(pace) > _by_rate(best):
                best = pace
            share = best.megabytes_per_cpu_second / self._before.megabytes_per_cpu_second
            if share >= RECOVERED:
                break
        assert best is not None
        _must(share >= RECOVERED, "the neighbour did not recover", f"{100 * share:.0f} % of its work before")
        return f"{_pace(best)}: {100 * share:.0f} % of before", {**best._asdict(), "work_share": share}, ""

    def _asked(self, *words: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._printed(*words, "--json"))
        return answer

    def _printed(self, *words: str) -> str:
        """Our own command, as a person types it."""
        program = [sys.argv[0]] if sys.argv[0].endswith(".pyz") else ["-m", "zombiescope"]
        environment = {**os.environ, "COLUMNS": "120"}
        done = subprocess.run(
            [sys.executable, *program, *words], capture_output=True, text=True, check=False, env=environment
        )
        if done.returncode != 0:
            why = (done.stderr or done.stdout).strip()[-500:] or f"exit code {done.returncode}"
            raise ActionFailedError(f"cannot go on with the incident: {words[0]} failed", why, "zombiescope lab clean")
        return done.stdout


def play_incident(
    run: Run, order: IncidentOrder, say: Callable[[Stage], None], advance: Callable[[int], None]
) -> Truth:
    return Incident(run, order, say).play(advance)


class _Below(Run):
    """The same run, with everything one level further down."""

    def __init__(self, name: str, hierarchy: Any, journal: Any, below: str) -> None:
        super().__init__(name, hierarchy, journal)
        self._below = below

    @property
    def subtree(self) -> str:
        return f"{super().subtree}/{self._below}"


def _by_rate(pace: Pace) -> float:
    return pace.megabytes_per_cpu_second


def _pace(pace: Pace) -> str:
    return (
        f"{pace.megabytes_per_second:,.0f} MB/s, {pace.megabytes_per_cpu_second:,.0f} MB for a second of CPU,"
        f" worst MiB {1000 * pace.worst_seconds:,.0f} ms, {100 * pace.system_share:.0f} % of its core in the kernel"
    )


def _must(is_so: bool, what: str, seen: str) -> None:
    if not is_so:
        raise ActionFailedError(f"the incident did not go as it must: {what}", seen, "zombiescope lab clean")


def account_of(order: IncidentOrder, kernel: str, hierarchy: str, stages: Sequence[Stage]) -> str:
    """The run as a document: what was done, what was printed."""
    lines = [
        "# The incident, reproduced and healed",
        "",
        f"Written by `zombiescope lab incident --count {order.zombies} --account docs/incident.md` on Linux {kernel},",
        f"memory on cgroup {hierarchy}. An unused agent crash-loops; each life leaves one file on a tmpfs and one dead memory",
        "cgroup. A neighbour reads a file under a limit on the parent that holds the dead. Then doctor, plan, apply and verify",
        "are run as a person would.",
        "",
        "| stage | seconds | what was seen |",
        "|---|---|---|",
        *(f"| {stage.name} | {stage.seconds:.1f} | {stage.told} |" for stage in stages),
    ]
    for stage in stages:
        if stage.output:
            lines += ["", f"## What `{'plan' if stage.name == 'apply' else stage.name}` printed", "", "```"]
            lines += [line.rstrip() for line in stage.output.rstrip().splitlines()] + ["```"]
    return "\n".join(lines) + "\n"
