# SPDX-License-Identifier: Apache-2.0
"""Stretches found in counters that are written as a kernel writes them: at ticks, cut to hundredths, each on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.analysis.core_saturation import (
    Causes,
    SaturationWatch,
    derive_blame,
    parse_causes,
    seconds_between,
    time_between,
)
from zombiescope.facts.cores import CoreLook, CoreMode, CoreTicks, KernelSample, KernelSamples, Share, Stretch
from zombiescope.facts.gap import Gap
from zombiescope.host.safe_open import read_shipped
from zombiescope.probes.readers.kernel_stacks import name_addresses

Mode = str
Doing = Callable[[float], Mode]
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
START = 1_700_000_000.0
TICK = 0.004


def looks(cores: dict[int, Doing], seconds: float, interval: float, phase: float = 0.0) -> Iterable[CoreLook]:
    """What a kernel of 250 ticks a second would tell."""
    spent = {core: dict.fromkeys(MODES, 1000.0) for core in cores}
    now, due = 0.0, phase
    while due <= seconds + 1e-9:
        while now < due:
            for core, doing in cores.items():
                spent[core][doing(now)] += TICK
            now += TICK
        counters = {core: _ticks(each) for core, each in spent.items()}
        yield CoreLook(START + due, due, counters)
        due += interval


def _ticks(spent: dict[str, float]) -> CoreTicks:
    user, nice, system, idle, iowait, irq, softirq, steal = (int(spent[mode] * 100 + 1e-6) for mode in MODES)
    return (user, nice, system, idle, iowait, irq, softirq, steal)


def held(begin: float, seconds: float, mode: Mode = "system", otherwise: Mode = "idle") -> Doing:
    return lambda now: mode if begin <= now < begin + seconds else otherwise


def always(mode: Mode) -> Doing:
    return lambda _: mode


def found(series: Iterable[CoreLook]) -> list[Stretch]:
    watch = SaturationWatch()
    ended = [stretch for look in series for stretch in watch.take(look)]
    return [*ended, *watch.finish()]


@pytest.mark.parametrize("phase", [0.0, 0.013, 0.05, 0.081])
@pytest.mark.parametrize("otherwise", ["idle", "user"])
def test_two_seconds_in_the_kernel_at_ten_looks_a_second(phase: float, otherwise: Mode) -> None:
    cores = {0: always("idle"), 3: held(1.23, 2.0, otherwise=otherwise), 5: always("user")}
    (stretch,) = found(looks(cores, 6, 0.1, phase))
    assert stretch.core == 3
    assert abs(stretch.begin - START - 1.23) < 0.05
    assert abs(stretch.seconds - 2.0) < 0.05
    assert stretch.mode is CoreMode.SYSTEM
    assert stretch.share > 0.95
    assert not stretch.is_cut


@pytest.mark.parametrize("phase", [0.0, 0.1, 0.25, 0.5, 0.75, 0.9])
def test_two_seconds_in_the_kernel_at_one_look_a_second(phase: float) -> None:
    (stretch,) = found(looks({1: held(4.4, 2.0)}, 12, 1.0, phase))
    assert abs(stretch.begin - START - 4.4) < 0.3
    assert abs(stretch.seconds - 2.0) < 0.3


def sharing(begin: float, seconds: float, kernel: float, *, mercy: float = 0.0) -> Doing:
    """In the kernel for so much of every 40 ms, and for a break of `mercy` at the end of each second not at all."""

    def doing(now: float) -> Mode:
        if not begin <= now < begin + seconds:
            return "user"
        if (now - begin) % 1 >= 1 - mercy:
            return "user"
        return "system" if now % 0.04 < kernel * 0.04 else "user"

    return doing


@pytest.mark.parametrize("interval", [0.1, 1.0])
def test_the_mercy_for_others_does_not_speak_for_what_holds_the_core(interval: float) -> None:
    """The scheduler keeps real-time tasks off for 5 % of each second, and the load does a little of its own."""
    (stretch,) = found(looks({0: sharing(1.5, 3.0, 0.9, mercy=0.05)}, 7, interval))
    assert abs(stretch.begin - START - 1.5) < 2 * interval
    assert abs(stretch.seconds - 3.0) < 2 * interval
    assert 0.8 <= stretch.share < 0.9, "what is told is the share of all of its time"


@pytest.mark.parametrize("interval", [0.1, 1.0])
@pytest.mark.parametrize("kernel", [0.5, 0.7])
def test_a_core_that_is_busy_for_itself_too_is_not_saturated(interval: float, kernel: float) -> None:
    assert not found(looks({0: sharing(1.5, 4.0, kernel)}, 8, interval))


@pytest.mark.parametrize("rest", [0.1, 0.2])
@pytest.mark.parametrize("phase", [0.0, 0.03, 0.07])
def test_one_that_rests_as_often_as_it_works_is_not_saturated(rest: float, phase: float) -> None:
    """Its breaks are short enough to be joined, and too many."""

    def doing(now: float) -> Mode:
        return "system" if now % (rest + 0.2) < 0.2 else "idle"

    assert not found(looks({0: doing}, 8, 0.1, phase))


@pytest.mark.parametrize("mode", ["softirq", "irq", "steal"])
def test_who_holds_it(mode: Mode) -> None:
    (stretch,) = found(looks({0: held(1, 2, mode)}, 5, 0.1))
    assert stretch.mode == mode


@pytest.mark.parametrize("mode", ["user", "nice", "idle", "iowait"])
@pytest.mark.parametrize("interval", [0.1, 1.0])
def test_a_hog_in_user_mode_and_an_idle_core_raise_nothing(mode: Mode, interval: float) -> None:
    assert found(looks({0: held(1, 3, mode), 1: always(mode)}, 8, interval)) == []


def test_half_kernel_half_user_raises_nothing() -> None:
    assert found(looks({0: lambda now: "system" if int(now / TICK) % 2 else "user"}, 5, 0.1)) == []


@pytest.mark.parametrize("interval", [0.1, 1.0])
@pytest.mark.parametrize("share", [0.70, 0.74, 0.78, 0.82])
def test_a_core_that_is_merely_busy_in_the_kernel_raises_nothing(share: float, interval: float) -> None:
    """Small system calls from a busy program: found false among runs that no tuning had seen."""
    watch = SaturationWatch()
    for look in looks({0: lambda now: "system" if int(now / TICK) * 37 % 100 < 100 * share else "user"}, 8, interval):
        assert watch.take(look) == []
    assert watch.finish() == []
    assert interval < 1 or watch.seconds == {}, "the agent's counter, at its pace, counts nothing"


def test_a_burst_shorter_than_half_a_second_raises_nothing() -> None:
    assert found(looks({0: held(1, 0.4)}, 4, 0.1)) == []


def test_a_schedulers_mercy_does_not_end_a_stretch() -> None:
    """A real-time task gives 50 ms of each second to others."""
    (stretch,) = found(looks({0: lambda now: "user" if now % 1 < 0.05 or now > 3.5 else "system"}, 6, 0.1, 0.37))
    assert stretch.share < 1
    assert stretch.begin + stretch.seconds == pytest.approx(START + 3.5, abs=0.06)


def test_two_stretches_with_a_pause_are_two() -> None:
    both = found(looks({0: lambda now: "system" if 1 <= now < 2 or 3 <= now < 4.5 else "idle"}, 6, 0.1))
    assert [round(each.seconds, 1) for each in both] == [1.0, 1.5]


def test_what_was_there_before_and_after_is_cut() -> None:
    (stretch,) = found(looks({0: always("system")}, 3, 0.1))
    assert stretch.is_cut
    assert stretch.seconds == pytest.approx(3, abs=0.01)


def test_a_core_that_goes_away_ends_its_stretch_and_one_that_comes_is_new() -> None:
    series = list(looks({0: always("idle"), 1: always("system")}, 4, 0.1))
    without = [
        look._replace(cores={0: look.cores[0]}) if 20 <= number < 30 else look for number, look in enumerate(series)
    ]
    both = found(without)
    assert [each.core for each in both] == [1, 1]
    assert all(each.is_cut for each in both)


def test_counters_that_run_backwards_are_not_believed() -> None:
    series = list(looks({0: always("idle")}, 2, 0.1))
    back = series[10].cores[0]
    series[10] = series[10]._replace(cores={0: (back[0] - 5000, *back[1:])})
    assert found(series) == []
    assert time_between(series[9].cores[0], series[10].cores[0], 0.1) is None


def test_idle_time_may_run_backwards() -> None:
    before: CoreTicks = (0, 0, 0, 1000, 1000, 0, 0, 0)
    time = time_between(before, (0, 0, 10, 990, 995, 0, 0, 0), 0.1)
    assert time is not None
    assert time.system == pytest.approx(0.1)
    assert time.idle == time.iowait == 0


def test_time_without_a_tick_is_lost_and_not_idle() -> None:
    time = time_between((0,) * 8, (0, 0, 2, 3, 0, 0, 0, 0), 0.1)
    assert time is not None
    assert time.lost == pytest.approx(0.05)


def test_idle_that_jumps_does_not_hide_work() -> None:
    time = time_between((0,) * 8, (0, 0, 10, 500, 0, 0, 0, 0), 0.1)
    assert time is not None
    assert time.system == pytest.approx(0.1)
    assert time.idle == 0


def test_a_clock_that_was_set_makes_no_window() -> None:
    first, second, *_ = looks({0: always("system")}, 1, 0.1)
    assert seconds_between(first, second) == pytest.approx(0.1)
    assert seconds_between(first, second._replace(at=second.at - 3600)) is None
    assert seconds_between(first, second._replace(at=second.at + 3600)) is None
    assert seconds_between(first, first) is None


def test_saturated_seconds_grow_while_it_lasts() -> None:
    watch = SaturationWatch()
    grown = []
    for look in looks({0: always("system"), 1: held(0, 9, "softirq")}, 5, 1.0):
        watch.take(look)
        grown.append(watch.seconds.get(CoreMode.SYSTEM, 0.0))
    assert grown == pytest.approx([0, 1, 2, 3, 4, 5], abs=0.05)
    assert watch.seconds[CoreMode.SOFTIRQ] == pytest.approx(5, abs=0.05)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e9), st.dictionaries(st.integers(0, 3), st.tuples(*[st.integers(0, 1 << 64)] * 8), max_size=4)
        ),
        max_size=12,
    )
)
def test_any_counters_give_stretches_inside_what_was_watched(rows: list[tuple[float, dict[int, CoreTicks]]]) -> None:
    rows.sort(key=lambda row: row[0])
    series = [CoreLook(at, at, cores) for at, cores in rows]
    for stretch in found(series):
        assert series[0].at - 1e-6 <= stretch.begin
        assert stretch.begin + stretch.seconds <= series[-1].at + 1e-6
        assert 0 <= stretch.share <= 1


KALLSYMS = b"""0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000100 t shrink_node.isra.0
ffffffff81000200 T mem_cgroup_iter
ffffffff81000300 D some_data
ffffffffc0000000 t ena_io_poll\t[ena]
garbage
ffffffff8100zzzz T broken
"""
STRETCH = Stretch(3, 100.0, 2.0, CoreMode.SYSTEM, 0.99)


def causes() -> Causes:
    return parse_causes(read_shipped("kernel_causes.toml"))


def taken(*samples: tuple[float, int, int, tuple[str, ...]]) -> KernelSamples:
    return KernelSamples(99, 0, tuple(KernelSample(*each) for each in samples), ((7, "kubelet"),))


def test_every_cause_has_words_and_no_function_has_two() -> None:
    table = causes()
    assert {"statistics", "memcg walk", "reclaim", "slab shrink", "softirq"} <= set(table.words)
    assert set(table.exact.values()) | {cause for _, cause in table.beginnings} == set(table.words)
    assert len(table.exact) == sum(
        1 for line in read_shipped("kernel_causes.toml").decode().split('"') if line in table.exact
    ), "a name stands in two causes"


def test_synonyms_of_every_era_are_the_same_cause() -> None:
    table = causes()
    for name in ("mem_cgroup_nr_lru_pages", "css_rstat_flush", "memcg1_stat_format", "cgroup_rstat_flush_locked"):
        assert table.of(name) == "statistics"
    for name in ("shrink_folio_list", "shrink_page_list", "try_to_free_mem_cgroup_pages", "shrink_node.isra.0"):
        assert table.of(name) == "reclaim"
    assert table.of("mem_cgroup_iter.part.0.cold") == "memcg walk"
    assert table.of("link_path_walk.part.0.constprop.0") == "directories"
    assert table.of("mem_cgroup_iterator_of_mine") is None
    assert table.of("vfs_write") is None, "an order to reclaim is written too: it is not work on files"


def test_only_the_samples_of_the_stretch_count() -> None:
    walk = ("mem_cgroup_iter", "shrink_node", "do_syscall_64")
    blame = derive_blame(
        taken(
            (100.5, 3, 7, walk),
            (101.0, 3, 7, ("shrink_lruvec", "shrink_node")),
            (101.5, 3, 9, ()),
            (101.5, 2, 7, walk),
            (103.0, 3, 7, walk),
        ),
        [STRETCH],
        causes(),
    )
    (found,) = blame.stretches
    assert (found.samples, blame.samples) == (3, 3)
    assert {each.name for each in found.functions} == {"mem_cgroup_iter", "shrink_lruvec", "[unknown]"}
    shares = {each.name: round(each.share, 2) for each in found.causes}
    assert shares == {"reclaim": 0.67, "memcg walk": 0.33, "other": 0.33}
    assert found.processes == (Share("kubelet", 2 / 3), Share("thread 9", 1 / 3))


def test_a_reader_that_waits_for_reclaim_over_the_dead_is_blamed_on_the_walk() -> None:
    walk = ("mem_cgroup_iter", "shrink_node", "try_charge_memcg", "filemap_read", "do_syscall_64")
    blame = derive_blame(
        taken(*((100.5, 3, 7, walk) for _ in range(98)), (101.0, 3, 7, walk[3:]), (101.0, 3, 7, walk[3:])),
        [STRETCH],
        causes(),
    )
    assert [each.name for each in blame.stretches[0].causes] == ["memcg walk", "reclaim", "files"]


def test_a_stretch_without_a_sample_is_told_as_that() -> None:
    assert derive_blame(taken(), [STRETCH], causes()).stretches[0].samples == 0


def test_addresses_get_the_name_of_the_function_around_them() -> None:
    wanted = {0xFFFFFFFF81000123, 0xFFFFFFFF81000200, 0xFFFFFFFFC0000010, 0x1000, 0xFFFFFFFF92000000}
    found = name_addresses(KALLSYMS, wanted)
    assert isinstance(found, dict)
    assert found[0xFFFFFFFF81000123] == "shrink_node.isra.0"
    assert found[0xFFFFFFFF81000200] == "mem_cgroup_iter"
    assert found[0xFFFFFFFFC0000010] == "ena_io_poll"
    assert found[0x1000] == found[0xFFFFFFFF92000000] == "[unknown]"


def test_hidden_addresses_are_a_gap_and_never_one_wrong_name() -> None:
    hidden = b"".join(b"0000000000000000 T function_%d\n" % number for number in range(5))
    for text in (hidden, b"", b"nonsense\n"):
        found = name_addresses(text, {0xFFFFFFFF81000123})
        assert isinstance(found, Gap)
        assert "hides" in found.reason
