# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from zombiescope.analysis.kernel_blame import Causes, derive_blame, parse_causes
from zombiescope.facts.cores import CoreMode, KernelSample, KernelSamples, Share, Stretch
from zombiescope.facts.gap import Gap
from zombiescope.host.safe_open import read_shipped
from zombiescope.probes.readers.kernel_stacks import name_addresses

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
