# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kernel.raw_records import live, memcg, walk

from zombiescope.facts.zombies import Tier
from zombiescope.kernel.assemble import assemble, former_paths
from zombiescope.kernel.mount_paths import MountPaths
from zombiescope.kernel.raw import CSS_DYING, CSS_ONLINE, RawMemcg

ROOT = live(1, 0, b"")


def test_only_the_dead_with_their_former_paths_below_living_and_dead_parents() -> None:
    found = list(
        former_paths(
            [
                ROOT,
                live(2, 1, b"a\nb"),
                memcg(css=3, parent=2, name=b"dead\xff"),
                memcg(css=4, parent=3, name=b"child", swap=7),
                memcg(css=5, parent=1, name=b"top", swap=-1),
            ]
        )
    )
    assert found == [(b"/a\nb/dead\xff", False), (b"/a\nb/dead\xff/child", True), (b"/top", None)]


def test_an_id_that_the_killing_still_holds_is_no_page_in_swap() -> None:
    killed = CSS_DYING | CSS_ONLINE
    found = list(
        former_paths(
            [
                ROOT,
                memcg(css=2, parent=1, name=b"none", flags=killed, swap=1),
                memcg(css=3, parent=1, name=b"some", flags=killed, swap=2),
                memcg(css=4, parent=1, name=b"offline", flags=CSS_DYING, swap=1),
            ]
        )
    )
    assert found == [(b"/none", False), (b"/some", True), (b"/offline", True)]


@st.composite
def trees(draw: st.DrawFn) -> list[RawMemcg]:
    found = [ROOT]
    for css in range(2, 2 + draw(st.integers(0, 12))):
        flags = draw(st.sampled_from([CSS_ONLINE, CSS_DYING, CSS_DYING | CSS_ONLINE]))
        name, swap = draw(st.binary(min_size=1, max_size=4)), draw(st.integers(-1, 3))
        parent = draw(st.integers(1, css - 1))
        found.append(memcg(css=css, parent=parent, serial=css, id=css, name=name, flags=flags, swap=swap))
    return found


@given(trees())
def test_they_are_those_of_an_autopsy(memcgs: list[RawMemcg]) -> None:
    zombies = assemble(walk(*memcgs), MountPaths([]), Tier.BPF).zombies
    told = [(zombie.path, None if (held := zombie.references.swap) is None else held > 0) for zombie in zombies]
    assert list(former_paths(memcgs)) == told
