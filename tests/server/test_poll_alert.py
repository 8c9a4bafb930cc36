# SPDX-License-Identifier: Apache-2.0
"""The pager rings before the card is reset: real packets to a core that is held longer and longer, a real agent, a real Prometheus.
The alert fires while the waits grow; only then is the line of a reset written; and it clears after the cure."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from tests.kernel.softirq_holder import hold_softirqs
from tests.kernel.veth import beside, probe
from tests.server.running import running_agent, running_prometheus, wait_for

from zombiescope.presenters.prometheus_rules import render_rules

CORES = sorted(os.sched_getaffinity(0))
CORE, OTHER = CORES[-1], CORES[0]
ALERT = "PollLatencyGrowing"
MOST_SECONDS = 120.0
RESET = "ena 0000:00:05.0 eth9: TX q 5 is paused for too long (threshold 5000000). Reset the device"


class Holder(threading.Thread):
    """Holds the core again and again, each time longer, up to half a second: drivers bear five."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stopped = threading.Event()

    def run(self) -> None:
        seconds = 0.2
        while not self.stopped.wait(1.0):
            hold_softirqs(CORE, seconds)
            seconds = min(seconds + 0.02, 0.5)


def quick(rules: str) -> str:
    """The same rules at a pace that a test can wait for."""
    for slow, fast in (("[2m]", "[4s]"), ("[1h] offset 5m", "[20s] offset 10s"), ("for: 2m", "for: 2s")):
        assert slow in rules
        rules = rules.replace(slow, fast)
    return rules


def test_the_alert_fires_before_the_reset_and_clears_after_the_cure(tmp_path: Path) -> None:
    with (
        beside(CORE, lambda pair: probe(pair, MOST_SECONDS), OTHER),
        running_agent(tmp_path) as (address, _),
        running_prometheus(tmp_path, address, quick(render_rules())) as server,
    ):
        assert wait_for(lambda: server.query("zombiescope_poll_wait_p999_seconds"))
        assert ALERT not in server.firing()
        holder = Holder()
        holder.start()
        try:
            assert wait_for(lambda: ALERT in server.firing()), server.query("zombiescope_poll_wait_p999_seconds")
            fired_at = time.time()
            assert not server.query("sum(zombiescope_nic_resets_total) > 0"), "no card was reset so far"
            longest = float(server.query("zombiescope_poll_wait_p999_seconds")[0]["value"][1])
            reset = tmp_path / "kernel.log"
            reset.write_text(f"{time.time():.6f} {RESET}\n", encoding="ascii")
            assert float(reset.read_text(encoding="ascii").split()[0]) >= fired_at
            assert 0.1 < longest < 5.0, "it rang while drivers still bore it"
        finally:
            holder.stopped.set()
            holder.join()
        assert wait_for(lambda: ALERT not in server.firing())
