# SPDX-License-Identifier: Apache-2.0
"""A real starved poll: packets over veth to a core that is held, by reclaim over thousands of zombies or with softirqs off. What
the agent follows, what the tracepoints say and what the sender's own clock says agree; the same traffic to a core that is not held
is no alarm; and looking costs what it may."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.build import case, snapshot
from tests.kernel.confined import CAP_BPF, CAP_PERFMON, answer_of_child, keep_only, refuse_bpf
from tests.kernel.conftest import not_here
from tests.kernel.reclaim_holder import ZOMBIES, hold_by_reclaim
from tests.kernel.softirq_holder import hold_softirqs
from tests.kernel.softirq_witness import LOOK_SECONDS, Witness, agree, softirq_witness, thread_witness
from tests.kernel.veth import CORE, OTHER, Sent, beside, flood, probe
from tests.kernel.zombie_maker import Maker

from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.rules import starved_softirq
from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.softirq import SoftirqSeen
from zombiescope.host.live import LiveHost
from zombiescope.kernel import bpf_poll
from zombiescope.kernel.bpf_object import BpfRefusedError, count_run_times
from zombiescope.probes.readers.softirq_wait import open_poll_latency
from zombiescope.watching.softirq import STAMP_SHARE, DetailedSoftirqWatch, PollsWatch, SoftirqTeller

pytestmark = pytest.mark.kernel


def watching(*, has_clock: bool = True) -> PollsWatch:
    """From here on; looked once."""
    try:
        watch = PollsWatch(LiveHost(), open_poll_latency(LiveHost(), has_clock=has_clock))
    except ObservationError as error:
        not_here(error.why)
        raise
    watch.look()
    return watch


def longest(watch: PollsWatch, core: int) -> float:
    return max((each.network.longest_seconds for each in watch.latencies() if each.core == core), default=0.0)


def finding(watch: PollsWatch) -> Verdict:
    seen = SoftirqSeen(0.0, 60.0, 0.0, None, 0, 0, watch.latencies(), tail=watch.tail())
    return starved_softirq.judge(case(snapshot())._replace(softirq=seen)).verdict


def watched(watch: PollsWatch, witness: Witness) -> tuple[float, float, Verdict]:
    """The longest wait by us and by the tracepoints, when all that was sent is there; and what is said of it."""
    time.sleep(2 * LOOK_SECONDS)
    watch.look()
    return longest(watch, CORE), max(witness.waits()), finding(watch)


def agree_all(seen: float, traced: float, sent: Sent) -> None:
    assert agree(seen, traced), (seen, traced)
    assert agree(seen, sent.longest_seconds), (seen, sent)
    assert agree(sent.longest_seconds, traced), (sent, traced)


def test_a_starved_poll_is_seen_as_the_tracepoints_and_the_sender_see_it() -> None:
    with (
        closing(watching()) as watch,
        softirq_witness(CORE) as witness,
        beside(CORE, lambda pair: probe(pair, 3.0), OTHER) as outcome,
    ):
        watch.look()
        held = hold_softirqs(CORE, 0.7)
        sent = outcome()
        seen, traced, verdict = watched(watch, witness)
    assert traced >= held.seconds - 0.1, "packets came all the time: one waited for nearly all of it"
    agree_all(seen, traced, sent)
    assert verdict is Verdict.PRESENT


def test_the_same_traffic_to_a_core_that_is_not_held_is_no_alarm() -> None:
    with (
        closing(watching()) as watch,
        softirq_witness(CORE) as witness,
        beside(CORE, lambda pair: probe(pair, 3.0), OTHER) as outcome,
    ):
        watch.look()
        sent = outcome()
        seen, traced, verdict = watched(watch, witness)
        waits = witness.waits()
    assert len(waits) >= 0.9 * sent.packets, "every packet is a softirq of its own at this pace"
    assert watch.waits["all"].all >= 0.9 * sent.packets
    if traced < 0.1:  # else somebody else held the core, and an alarm is right
        assert verdict is Verdict.ABSENT
        assert seen < 0.15


def test_a_poll_starved_by_reclaim_over_thousands_of_zombies_is_seen_as_the_tracepoints_and_the_sender_see_it() -> None:
    """The poll runs in a thread (threaded NAPI), which needs the core that the reclaim does not leave."""
    with Maker(f"zombiescope-polls-{os.getpid()}") as maker:
        maker.many(ZOMBIES)
        with (
            closing(watching()) as watch,
            thread_witness() as witness,
            beside(CORE, lambda pair: probe(pair, 3.0), OTHER, is_threaded=True) as outcome,
        ):
            doctors = DetailedSoftirqWatch(LiveHost())
            watch.look()
            held = hold_by_reclaim(CORE, maker.top, 0.6)
            sent = outcome()
            seen, traced, verdict = watched(watch, witness)
            window = doctors.seen()
    assert isinstance(window, SoftirqSeen)
    assert not isinstance(window.latencies, Gap), window.latencies
    by_doctor = max(each.network.longest_seconds for each in window.latencies if each.core == CORE)
    assert agree(by_doctor, traced), (by_doctor, traced)
    assert traced > held.seconds / 4, "between two calls of reclaim, and for a twentieth of each second, others may run"
    agree_all(seen, traced, sent)
    assert verdict is Verdict.PRESENT


def test_the_same_traffic_to_a_thread_whose_core_is_not_held_is_no_alarm() -> None:
    with (
        closing(watching()) as watch,
        thread_witness() as witness,
        beside(CORE, lambda pair: probe(pair, 2.0), OTHER, is_threaded=True) as outcome,
    ):
        watch.look()
        followed = watch.threads
        sent = outcome()
        seen, traced, verdict = watched(watch, witness)
        waits = witness.waits()
    assert followed, "the thread that polls is followed"
    assert len(waits) >= 0.5 * sent.packets, "it is woken for the packets"
    assert watch.waits["all"].all >= 0.5 * sent.packets, "its runs are counted"
    if traced < 0.1:
        assert verdict is Verdict.ABSENT
        assert seen < 0.15


def test_a_program_that_takes_the_name_of_such_a_thread_is_not_believed() -> None:
    child = os.fork()
    if child == 0:
        Path("/proc/self/comm").write_text("napi/eth0-1")
        os.sched_setaffinity(0, {CORE})
        while os.getppid() != 1:
            pass
    try:
        comm = Path(f"/proc/{child}/comm")
        while comm.read_text() != "napi/eth0-1\n":
            time.sleep(0.01)
        with Maker(f"zombiescope-polls-{os.getpid()}") as maker, closing(watching()) as watch:
            maker.many(ZOMBIES)
            doctors = DetailedSoftirqWatch(LiveHost())
            before = int(Path(f"/proc/{child}/schedstat").read_text().split()[1])
            held = hold_by_reclaim(CORE, maker.top, 0.4)
            waited = (int(Path(f"/proc/{child}/schedstat").read_text().split()[1]) - before) / 1e9
            watch.look()
            window, seen = doctors.seen(), longest(watch, CORE)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert isinstance(window, SoftirqSeen)
    assert not isinstance(window.latencies, Gap)
    by_doctor = max((each.network.longest_seconds for each in window.latencies if each.core == CORE), default=0.0)
    assert max(by_doctor, seen) < 0.1, (by_doctor, seen, waited, held)


def test_where_a_clock_is_refused_it_goes_by_the_kernels_ticks() -> None:
    with (
        closing(watching(has_clock=False)) as watch,
        softirq_witness(CORE) as witness,
        beside(CORE, lambda pair: probe(pair, 2.0), OTHER) as outcome,
    ):
        watch.look()
        hold_softirqs(CORE, 0.5)
        sent = outcome()
        seen, traced, verdict = watched(watch, witness)
    agree_all(seen, traced, sent)
    assert verdict is Verdict.PRESENT


def test_too_many_ticks_are_left_alone_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    following = open_poll_latency(LiveHost(), has_clock=False)
    try:
        monkeypatch.setattr(bpf_poll, "MOST_TICKS", 0)
        time.sleep(1.0)  # it is judged by a second at least
        for _ in range(2):
            with pytest.raises(BpfRefusedError, match="ticks"):
                following.read()
        looks = following._object.map_memory("bss", 64)[:64]
        time.sleep(0.1)
        assert following._object.map_memory("bss", 64)[:64] == looks, "nothing looks any more"
    finally:
        following.close()


def test_many_packets_cost_no_more_than_few() -> None:
    """By the kernel's own count of what the programs take. The target, 0.2 % of a core, is benchmarked; here only that the stamps
    rest, and that the clock is all that is left."""
    counting = count_run_times()
    try:
        with beside(CORE, lambda pair: flood(pair, 50_000, 6.0), OTHER):
            following = open_poll_latency(LiveHost())
            watch = PollsWatch(LiveHost(), following)
            try:
                watch.look()
                time.sleep(1.0)
                watch.look()
                before = following.run_times()
                time.sleep(1.0)
                watch.look()
                after = following.run_times()
                runs, rests = watch.waits["all"].all, not following.is_stamping
            finally:
                watch.close()
    finally:
        os.close(counting)
    stamped = sum(after[name][1] - before[name][1] for name in before if name not in ("on_clock", "on_tick"))
    assert runs > 1_000
    if runs / 2 * 1e-6 > STAMP_SHARE:  # as many as it takes, at the price that is assumed until it was measured
        assert rests
        assert stamped < runs, "a slice of them at most: four stamps each"
    looked = after["on_clock"][1] - before["on_clock"][1]
    assert 20 <= looked <= 200


def test_two_capabilities_are_enough_and_without_bpf_the_files_still_tell() -> None:
    def followed() -> bool:
        keep_only(CAP_BPF, CAP_PERFMON)
        watch = PollsWatch(LiveHost())
        watch.look()
        time.sleep(0.1)
        watch.look()
        return watch.tail() is not None

    def refused() -> list[object]:
        refuse_bpf(1)
        with pytest.raises(ObservationError) as error:
            PollsWatch(LiveHost())
        return [error.value.what, error.value.why, len(SoftirqTeller(LiveHost()).read().samples)]

    assert answer_of_child(followed)
    what, why, samples = answer_of_child(refused)
    assert what == "cannot follow the network's softirqs"
    assert "not permitted" in why
    assert samples == 1
