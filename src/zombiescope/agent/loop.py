# SPDX-License-Identifier: Apache-2.0
"""The agent's one loop: when each probe runs, what is kept, who is told. A light look each interval; heavy looks and walks in a
child; signals, the server and the children's answers through one selector."""

from __future__ import annotations

import gc
import json
import math
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from zombiescope import pipeline
from zombiescope.agent.api import Api, Notifier, close_door, guards_of, open_door, write_textfile
from zombiescope.agent.cluster import NAME as CLUSTER
from zombiescope.agent.cluster import Settings, Teller, settings_of
from zombiescope.agent.keep import Keeper
from zombiescope.agent.page import AgentPage
from zombiescope.agent.probing import Probing, Troubles, on_the_beat
from zombiescope.agent.state import State
from zombiescope.config import Config, notify_socket, watchdog_seconds
from zombiescope.diagnosis.finding import Verdict
from zombiescope.errors import ObservationError, UsageError, ZombiescopeError
from zombiescope.facts.agent import Occurrence, ProbeRun, Reading
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import FINDING_SEVERITY
from zombiescope.facts.lifecycle import Counts
from zombiescope.facts.names import shown
from zombiescope.host.children import KeptChild, Tended
from zombiescope.watching.catalogue import PROBES
from zombiescope.watching.cgroups import Follower, heavy_of, look_heavily, walk, walked_of
from zombiescope.web.server import Server
from zombiescope.web.site import Site

MOST_SECONDS = 120.0
GROWTH_SECONDS, _FIRST_HEAVY_SECONDS = 30.0, 5.0
_FIXED = ("listen", "state", "events", "kubernetes_cluster")
"""Values that hold until the agent ends."""
_MOST_SAID = 20


class Agent:
    def __init__(
        self, follower: Follower, config: Config, reload: Callable[[], Config], recorder: KeptChild | None = None
    ) -> None:
        """`recorder`: of profiles, where it was switched on."""
        self.config, self._reload, self._recorder = config, reload, recorder
        self._follower = follower
        self.state = State(follower, config.thresholds, self._image())
        self._selector = selectors.DefaultSelector()
        self._keeper = Keeper(follower, config)
        self._keeper.recall_pods(self.state.pods)
        self._site = Site(AgentPage(self.state, lambda: self.config, self._keeper, self._selector))
        self._api = Api(self.state, lambda: self.config, self._why_unwell, self._site)
        if config.text("listen") or config.text("textfile"):
            _ = self._api.exposition  # what it needs is missed now, not at the first scrape
        self._server = open_door(config, self._selector, self._api.answer)
        self._notifier = Notifier(notify_socket())
        self._troubles = Troubles(self.state.report, self.state.forget)
        self._probing = Probing(follower.host, PROBES, self._take_reading, say)
        self.state.watched = (self._probing,)
        self._teller = Teller(self._told(config), self._selector, self.state.condition, partial(self._lasts, CLUSTER))
        self._child: Tended | None = None
        self._counted: dict[str, Counts] = {}
        self._present: dict[str, str] = {}
        """Findings, and how severe each is."""
        self._failed = 0
        self._said_failures: set[str] = set()
        self._is_ending = False
        now = time.monotonic()
        self._due = {
            "events": now,
            "tick": now,
            "growth": now + GROWTH_SECONDS,
            "walk": now,
            "heavy": now + _FIRST_HEAVY_SECONDS,
        }
        self._last_tick = now

    @property
    def port(self) -> int | None:
        return self._server.port if self._server else None

    def run(self) -> None:
        signals = self._hear_signals()
        try:
            self._keeper.happened("agent-began", f"events by {self._tier()}")
            self._tick_in_time()
            gc.freeze()
            gc.enable()
            self._notifier.say("READY=1", "STATUS=looking")
            if self._server:
                port = f" (port {self._server.port})" if self._server.port else ""
                say(f"serving on {self.config.text('listen')}{port}; events by {self._tier()}")
            while not self._is_ending:
                self._step()
        finally:
            self._end(signals)

    def _step(self) -> None:
        now = time.monotonic()
        wait = max(min(*self._due.values(), self._probing.due, self._teller.due) - now, 0.0)
        for key, _ in self._selector.select(wait):
            key.data(time.monotonic())
        now = time.monotonic()
        for name, work in (
            ("events", self._catch_up),
            ("tick", self._tick_in_time),
            ("growth", self._grow),
            ("walk", self._walk),
            ("heavy", self._look_heavily),
        ):
            if self._due[name] <= now and not self._is_ending:
                work()
        self._probing.run(now)
        if not self._is_ending:
            self._teller.run(now)
        if self._child:
            self._child.drop_late(now)
        if self._server:
            self._server.drop_late(now)
            self._site.drop_late(now)
            self._tell_failures(self._server)

    def _told(self, config: Config) -> Settings | None:
        return settings_of(config, self._follower.identity.name or "")

    def _lasts(self, name: str, gap: Gap | None) -> None:
        if news := self._troubles.lasts(name, gap):
            say(news)

    def _tell_failures(self, server: Server) -> None:
        """Counted in what is shown for an hour; in the log each kind once, for strangers can make them happen."""
        if server.failed == self._failed:
            return
        self._failed = server.failed
        self._troubles.happened(
            "server",
            f"{server.failed:,} answers failed since the agent began, the last with {server.last_failure}",
            time.monotonic(),
        )
        if server.last_failure not in self._said_failures and len(self._said_failures) < _MOST_SAID:
            self._said_failures.add(server.last_failure)
            say(f"an answer failed: {server.last_failure}")

    def _tick_in_time(self) -> None:
        self._due["tick"] = on_the_beat(time.monotonic(), self.config.number("interval_seconds"))
        self._tick()

    def _tick(self) -> None:
        self._last_tick = time.monotonic()
        tick = self._follower.tick()
        self.state.take_tick(tick)
        self._remember(self.state.restarted)
        if jump := self._troubles.jump(tick.at, tick.clock):
            self._notice("clock", jump, "clock-jumped")
        self._keeper.keep(tick.at, self.state.sample())
        self._keeper.keep_pods(self.state.pods, self._last_tick)
        for note in self._keeper.new_notes():
            self._notice("store", note, "store-damaged")
        for name, gap in self._keeper.gaps() if self.config.text("state") else ():
            self._lasts(name, gap)
        self._keep_recording()
        self._troubles.let_go(time.monotonic())
        self._write_textfile()
        self._notifier.say("WATCHDOG=1")

    def _keep_recording(self) -> None:
        if self._recorder is None:
            return
        self._recorder.look(time.monotonic())
        why = self._recorder.why
        self._lasts("recorder", Gap("recorder", why, "zombiescope profile ring") if why else None)

    def _catch_up(self) -> None:
        ledger = self._follower.ledger
        self._due["events"] = math.inf if isinstance(ledger, Gap) else time.monotonic() + ledger.catch_up()

    def _take_reading(self, probe: str, run: ProbeRun, reading: Reading) -> None:
        self.state.take_reading(probe, run, reading)
        self._remember(reading.happened)

    def _remember(self, happened: Iterable[Occurrence]) -> None:
        for each in happened:
            self._keeper.happened(each.what, each.detail, each.at)

    def _notice(self, name: str, what: str, happening: str) -> None:
        """Something that happened once: in the log, the history, and for an hour in /healthz and as a probe that failed."""
        say(f"{name}: {what}")
        self._keeper.happened(happening, what)
        self._troubles.happened(name, what, time.monotonic())

    def _grow(self) -> None:
        self._due["growth"] = on_the_beat(time.monotonic(), max(GROWTH_SECONDS, self.config.number("interval_seconds")))
        self.state.consider_growth()
        findings = self.state.judge().diagnosis.findings
        present = {each.id: each.severity.value for each in findings if each.verdict is Verdict.PRESENT}
        said = {each.id: each.summary for each in findings}
        for name in present.keys() - self._present.keys():
            self._keeper.happened("finding-present", f"{name}: {said[name]}")
        for name, severity in present.items():
            if self._present.get(name) != severity:
                self._keeper.happened(FINDING_SEVERITY, f"{name}: {severity}")
        for name in self._present.keys() - present.keys():
            self._keeper.happened("finding-gone", name)
        self._present = present

    def _walk(self) -> None:
        if self._has_turn("walk", "walk_interval_seconds"):
            self._tick()
            self._counted = self.state.accounts.snapshot()
            self._begin("walk", lambda: walk(self._follower.host))

    def _look_heavily(self) -> None:
        if self._has_turn("heavy", "heavy_interval_seconds"):
            self._begin("heavy", lambda: look_heavily(self._follower.host, self._follower.hierarchy))

    def _has_turn(self, name: str, pace: str) -> bool:
        """One child at a time: who finds it at work comes again in a second."""
        self._due[name] = time.monotonic() + (1.0 if self._child else self.config.number(pace))
        return self._child is None

    def _begin(self, name: str, work: Callable[[], Any]) -> None:
        until = time.monotonic() + MOST_SECONDS
        try:
            self._child = Tended(
                self._selector, lambda: json.dumps(work()).encode(), until, partial(self._child_ended, name)
            )
        except OSError as error:
            self.state.fail(name, f"no process could be started: {error.strerror}")

    def _child_ended(self, name: str, said: bytearray | None, _: float, is_late: bool) -> None:
        self._child = None
        if isinstance(outcome := _outcome(said, is_late=is_late), str):
            self.state.fail(name, outcome)
        elif name == "walk":
            self.state.take_walk(walked_of(outcome), self._counted)
        else:
            heavy = heavy_of(outcome)
            self.state.take_heavy(heavy, time.monotonic())
            self._remember(heavy.own_sweep(self._follower.host.wall_clock()))

    def _why_unwell(self) -> str:
        silent = time.monotonic() - self._last_tick
        return f"no look for {silent:.0f} s" if silent > 3 * self.config.number("interval_seconds") else ""

    def _write_textfile(self) -> None:
        path = self.config.text("textfile")
        if path and (why := write_textfile(path, self._api.exposition.render()[1])):
            self.state.fail("textfile", f"{path}: {why}")

    def _hear_signals(self) -> int:
        """A byte a signal, through a pipe into the selector."""
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self._selector.register(reading, selectors.EVENT_READ, lambda _: self._signalled(reading))
        return writing

    def _signalled(self, reading: int) -> None:
        for number in os.read(reading, 64):
            if number == signal.SIGHUP:
                self._read_configuration_again()
            else:
                self._is_ending = True

    def _read_configuration_again(self) -> None:
        try:
            fresh = self._reload()
            kept = fresh.with_kept(self.config, _FIXED)
            guards, told = guards_of(kept), self._told(kept)
        except ZombiescopeError as error:
            say(f"the configuration is kept as it was: {error.what}: {error.why}")
            return
        for name in _FIXED:
            if fresh.values[name] != self.config.values[name]:
                say(f"{name} changes only with a restart")
        self.config = kept
        if self._server:
            self._server.guards = guards
        self.state.thresholds, self.state.image = fresh.thresholds, self._image()
        self._teller.configure(told)
        self._keeper.happened("configuration-read", "by SIGHUP")
        say("the configuration was read again")

    def _image(self) -> str:
        return self.config.text("image") or self._follower.image

    def _tier(self) -> str:
        """How events are seen, and why not better."""
        ledger = self._follower.ledger
        if isinstance(ledger, Gap):
            return f"nothing ({ledger.reason})"
        whys = [f"{gap.fact.removeprefix('events.')}: {gap.reason}" for gap in ledger.refused]
        return f"{ledger.tier} ({'; '.join(whys)})" if whys else str(ledger.tier)

    def _end(self, signals: int) -> None:
        self._notifier.say("STOPPING=1")
        self._teller.close()
        if self._child:
            self._child.stop()
        if self._recorder:
            self._recorder.close()
        self._keeper.happened("agent-ended", "asked to")
        self._keeper.keep_pods(self.state.pods, self._last_tick, at_once=True)
        self._keeper.close()
        self._probing.close()
        self._follower.close()
        self._site.close()
        if self._server:
            close_door(self.config, self._server)
        signal.set_wakeup_fd(-1)
        os.close(signals)
        self._selector.close()


def _outcome(said: bytearray | None, *, is_late: bool) -> list[Any] | str:
    """What a child found, or why there is nothing."""
    if is_late:
        return f"it took longer than {MOST_SECONDS:.0f} s and was stopped"
    try:
        outcome = json.loads(said or b"")
    except ValueError:
        return "the process that looked ended without an answer"
    return outcome if isinstance(outcome, list) else "the process that looked gave no answer"


def say(text: str) -> None:
    sys.stderr.write(f"zombiescope agent: {text}\n")
    sys.stderr.flush()


def serve(
    host_root: bytes | None, config: Config, reload: Callable[[], Config], recorder: KeptChild | None = None
) -> None:

    host = pipeline.opening.open_host(host_root, config)
    if not host.is_live:
        raise ObservationError(
            f"cannot follow {shown(host_root or b'/')}",
            "it is a folder, and nothing happens in it",
            "run it on a live host",
        )
    limit = watchdog_seconds()
    if limit is not None and config.number("interval_seconds") >= limit / 2:
        raise UsageError(
            "cannot use interval_seconds", "the service's watchdog is shorter than two looks", "WatchdogSec=120"
        )
    Agent(Follower(host, config.text("events")), config, reload, recorder).run()
