# SPDX-License-Identifier: Apache-2.0
"""The pager rings before the card is reset: a race. Zombies grow, and with them the time for which reclaim over them holds a core;
packets to that core wait longer and longer. A watchdog that stands for the driver's sees its own packets alone, by its own clock,
and writes the line of a reset as soon as one is late beyond what it bears. A real agent and a real Prometheus do not know of it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.kernel.reclaim_holder import hold_by_reclaim
from tests.kernel.veth import CORE, OTHER, Pair, Sent, beside
from tests.kernel.zombie_maker import Maker
from tests.server.running import Prometheus, running_agent, running_prometheus, wait_for

from zombiescope.presenters.prometheus_rules import render_rules

ALERT = "PollLatencyGrowing"
PATIENCE_SECONDS = 0.75
"""Drivers bear five seconds; here the rules are thirty times as quick as they are shipped, and the watchdog less than seven times.
The kernel leaves ordinary programs a twentieth of each second, so that realtime reclaim holds them for 0.95 s at most."""
FIRST_SECONDS, STEP_SECONDS, PAUSE_SECONDS = 0.1, 0.025, 0.5
RESET = "ena 0000:00:05.0 eth9: TX q 5 is paused for too long (threshold 750000). Reset the device"


def driver(log: Path) -> Callable[[Pair], Sent]:
    """Sends until a packet does not arrive in time; then the line, with the time of the wall clock, and it is over."""

    def watch(pair: Pair) -> Sent:
        pair.far.settimeout(PATIENCE_SECONDS)
        begun, packets = time.monotonic(), 0
        while True:
            pair.near.send(b"x")
            try:
                pair.far.recv(64)
            except TimeoutError:
                log.write_text(f"{time.time():.6f} {RESET}\n", encoding="ascii")
                return Sent(packets, time.monotonic() - begun, PATIENCE_SECONDS, 0.0)
            packets += 1
            time.sleep(0.001)

    return watch


class Growth(threading.Thread):
    """Reclaims over and over, each time over so many zombies that it takes a little longer than the time before, on any machine."""

    def __init__(self, maker: Maker) -> None:
        super().__init__(daemon=True)
        self._maker = maker
        self.stopped = threading.Event()
        self.held: list[float] = []
        self.zombies = 0

    def run(self) -> None:
        wanted = FIRST_SECONDS
        self._make(500)
        while not self.stopped.wait(PAUSE_SECONDS):
            took = hold_by_reclaim(CORE, self._maker.top, 0.0).seconds
            self.held.append(took)
            wanted += STEP_SECONDS
            self._make(min(max(int(self.zombies * (wanted / took - 1)), 0), 1_000))

    def _make(self, number: int) -> None:
        if number:
            self._maker.many(number, self.zombies)
            self.zombies += number


def quick(rules: str) -> str:
    """The same rules at a pace that a test can wait for."""
    for slow, fast in (("[2m]", "[4s]"), ("[1h] offset 5m", "[20s] offset 10s"), ("for: 2m", "for: 2s")):
        assert slow in rules
        rules = rules.replace(slow, fast)
    return rules


def first_fired(server: Prometheus) -> float | None:
    """By Prometheus' own clock: the first evaluation that found the alert firing."""
    found = server.query(f'min_over_time(timestamp(ALERTS{{alertname="{ALERT}",alertstate="firing"}})[10m:1s])')
    return float(found[0]["value"][1]) if found else None


def test_the_alert_fires_before_the_watchdog_resets_the_card_and_clears_after_the_cure(tmp_path: Path) -> None:
    log = tmp_path / "kernel.log"
    with (
        Maker(f"zombiescope-alert-{os.getpid()}") as maker,
        beside(CORE, driver(log), OTHER, is_threaded=True),
        running_agent(tmp_path) as (address, _),
        running_prometheus(tmp_path, address, quick(render_rules())) as server,
    ):
        assert wait_for(lambda: server.query("zombiescope_poll_wait_p999_seconds"))
        assert ALERT not in server.firing()
        assert not log.exists()
        growth = Growth(maker)
        growth.start()
        try:
            assert wait_for(log.exists), (growth.held[-5:], growth.zombies)
        finally:
            growth.stopped.set()
            growth.join()
        reset_at, fired_at = float(log.read_text(encoding="ascii").split()[0]), first_fired(server)
        waited = server.query("zombiescope_poll_wait_p999_seconds")
        assert fired_at is not None, (growth.held, waited)
        assert fired_at < reset_at, (growth.held, waited)
        assert growth.zombies > 1_000
        assert wait_for(lambda: ALERT not in server.firing())
