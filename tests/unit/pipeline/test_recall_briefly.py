# SPDX-License-Identifier: Apache-2.0
"""What is told over HTTP about a long time is what `zombiescope history` tells, without holding that time in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from tests.build import ScriptedHost, v1_machine

from zombiescope.analysis.recall import Thinned
from zombiescope.facts.history import Happening, Sample
from zombiescope.history.chunks import Chunks
from zombiescope.history.log import AppendLog
from zombiescope.history.store import DATABASE, LOG
from zombiescope.host.access import Host
from zombiescope.pipeline.recall import recall, recall_briefly
from zombiescope.presenters.history_json import render_history

STEP = 10.0


def samples(now: float) -> list[Sample]:
    """Two boots, six hours and a pause of an hour; one series comes late, and one spike lasts a single sample."""
    found = []
    for number in range(1, 2161):
        at = now - 7 * 3600 + number * STEP + (3600 if number > 1000 else 0)
        values = {"zombies": number * 8.0, "uptime": number * STEP, "live": 999.0 if number == 777 else 20.0}
        if number > 1500:
            values["maker.unit:late.service"] = number - 1500.0
        found.append(Sample(number, at, "one" if number <= 300 else "two", values))
    return found


def test_the_figures_are_those_of_all_samples(tmp_path: Path) -> None:
    host = cast("Host", ScriptedHost(v1_machine()))
    now = host.wall_clock()
    everything = samples(now)
    chunks = Chunks(str(tmp_path / DATABASE))
    happened = [Happening(9000 + n, now - 60, "two", "finding-present", str(n)) for n in range(700)]
    chunks.fold(everything[:2000], happened, 2000)
    chunks.close()
    log = AppendLog(str(tmp_path / LOG))
    log.append(list(everything[1990:]))
    log.close()
    whole, brief = (ask(host, os.fsencode(tmp_path), 86_400.0) for ask in (recall, recall_briefly))
    assert len(brief.samples) < len(whole.samples) == len(everything)
    documents = [
        render_history(each.snapshot, each.recall, each.happenings, each.moment, each.gaps) for each in (whole, brief)
    ]
    for field in ("samples", "since", "until", "boots", "pauses", "series"):
        assert documents[0][field] == documents[1][field], field
    onset = documents[0]["growth"]["onset"]
    assert onset is not None
    assert documents[1]["growth"]["onset"] == onset
    rates = [each["growth"]["per_hour"] for each in documents]
    assert abs(rates[0] - rates[1]) < 0.05 * rates[0]
    assert [each["detail"] for each in documents[1]["events"]] == [str(n) for n in range(200, 700)]
    assert "the last 500 of 700 are shown" in str(documents[1]["gaps"])


def test_however_many_come_few_are_kept_evenly() -> None:
    thinned = Thinned(10)
    for number in range(1000):
        thinned.take(Sample(number, float(number), "b", {"a": float(number)}))
    steps = {later.number - earlier.number for earlier, later in zip(thinned.kept, thinned.kept[1:], strict=False)}
    assert 10 <= len(thinned.kept) < 20
    assert len(steps) == 1
    assert len(thinned.moments) == 1000
    assert thinned.figures["a"] == (1000, 0.0, 999.0, 0.0, 999.0)
