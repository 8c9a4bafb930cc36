# SPDX-License-Identifier: Apache-2.0
"""The window over the cores: what was seen, recorded and replayed, and each way of not seeing."""

from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.facts.cores import Blame, CoresSeen
from zombiescope.facts.gap import Gap
from zombiescope.host.live import TreeHost
from zombiescope.host.recording import Answer, ReplayHost
from zombiescope.watching.cores import DetailedCoresWatch

START = 1_700_000_000.0


def stat(system: float, idle: float) -> str:
    """Core 0 works in the kernel, core 1 does nothing."""
    busy, free = round(system * 100), round(idle * 100)
    return f"cpu  1 1 1 1\ncpu0 5 0 {busy} {free} 0 0 0 0 0 0\ncpu1 5 0 7 {busy + free} 0 0 0 0 0 0\n"


def recording(
    begin: float, end: float, seconds: float, late: float = 0.0, chains: dict[str, object] | None = None
) -> ReplayHost:
    """A look each tenth of a second; each comes `late` after it was due, as on a busy host. `chains`: as it keeps them."""
    answers = [] if chains is None else [Answer(0.0, "experiment", b"kernel_stacks", chains)]
    for number in range(round(seconds * 10) + 1):
        due = number / 10
        now = due + late * (number % 2)
        busy = min(max(now - begin, 0.0), end - begin)
        answers.append(Answer(due, "wall_clock", b"", START + now))
        answers.append(Answer(due, "read", b"/proc/stat", stat(busy, now - busy)))
    return ReplayHost("recorded", answers)


def watched(host: ReplayHost | TreeHost, seconds: float = 6, *, with_blame: bool = False) -> CoresSeen | Gap:
    window = DetailedCoresWatch(host, with_blame=with_blame)
    window.look()
    for _ in range(round(seconds * 10)):
        host.wait(0.1)
        window.look()
    return window.seen()


def test_a_stretch_with_core_begin_and_length() -> None:
    for late in (0.0, 0.06):
        seen = watched(recording(2.0, 4.0, 6, late))
        assert isinstance(seen, CoresSeen)
        (stretch,) = seen.stretches
        assert stretch.core == 0
        assert abs(stretch.begin - START - 2.0) < 0.03
        assert abs(stretch.seconds - 2.0) < 0.05
        assert (seen.cores, round(seen.seconds), seen.gaps) == (2, 6, ())
        assert seen.saturated_seconds == stretch.seconds
        assert seen.longest == stretch
        kernel, idle = (use.time for use in seen.uses)
        assert abs(kernel.system - 2.0) < 0.02
        assert idle.system == 0
        assert len(seen.uses[0].windows) == 60


CHAINS = {
    "rate_hz": 99,
    "lost": 0,
    "samples": [[START + 3, 0, 7, ["shrink_node", "kswapd"]]],
    "threads": [[7, "kswapd0"]],
}


def blamed(chains: dict[str, object]) -> Blame | Gap:
    seen = watched(recording(2.0, 4.0, 6, chains=chains), with_blame=True)
    assert isinstance(seen, CoresSeen)
    assert len(seen.stretches) == 1
    return seen.blame


def test_call_chains_that_a_recording_kept_are_told() -> None:
    found = blamed(CHAINS)
    assert isinstance(found, Blame)
    assert blamed({"gap": ["cores[].blame", "refused", "as root"]}) == Gap("cores[].blame", "refused", "as root")


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        {"gap": 3},
        CHAINS | {"samples": [[1.0, 0, 7]]},
        CHAINS | {"samples": [[1.0, 0, 7, "frames"]]},
        CHAINS | {"threads": 7},
        CHAINS | {"rate_hz": "99"},
    ],
)
def test_call_chains_that_a_stranger_wrote_are_a_gap(damaged: dict[str, object]) -> None:
    found = blamed(damaged)
    assert isinstance(found, Gap)
    assert "not in a form we know" in found.reason


def test_nothing_happened() -> None:
    seen = watched(recording(0, 0, 3), 3)
    assert isinstance(seen, CoresSeen)
    assert seen.stretches == ()
    assert seen.longest is None


def test_no_file_is_a_gap(tmp_path: Path) -> None:
    seen = watched(TreeHost(bytes(tmp_path)), 1)
    assert isinstance(seen, Gap)
    assert "/proc/stat" in seen.reason


def test_a_folder_stands_still_and_is_a_gap(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text(stat(1, 1))
    seen = watched(TreeHost(bytes(tmp_path)), 1)
    assert isinstance(seen, Gap)
    assert "nothing passes here" in seen.reason


def test_no_look_at_all_is_a_gap(tmp_path: Path) -> None:
    assert isinstance(DetailedCoresWatch(TreeHost(bytes(tmp_path))).seen(), Gap)


def test_a_file_that_vanishes_meanwhile_leaves_what_was_seen() -> None:
    host = recording(1, 2.5, 6)
    window = DetailedCoresWatch(host)
    for _ in range(40):
        window.look()
        host.wait(0.1)
    window._host = ReplayHost("nothing", [Answer(0, "wall_clock", b"", START)])
    window.look()
    seen = window.seen()
    assert isinstance(seen, CoresSeen)
    assert [round(each.seconds, 1) for each in seen.stretches] == [1.5]
    assert [gap.fact for gap in seen.gaps] == ["cores"]
