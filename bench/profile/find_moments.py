# SPDX-License-Identifier: Apache-2.0
"""`find` on labelled captures: recall and precision, on a tuning set and on a test set that nothing was tuned on.

A truth is found when a moment of its core overlaps at least half of it; a moment is right when at least half of it overlaps a
truth of its core. Seeds 0 to 39 tune, 1000 to 1099 test. Real captures are in live_moments.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.profile.labelled import Labelled, Truth, build

from zombiescope.profiler.stacks.flame_graph import shape_of
from zombiescope.profiler.stacks.saturation import Moment, explain, find_moments

TUNING, TEST = range(40), range(1000, 1100)


def overlap(moment: Moment, truth: Truth) -> float:
    return max(0.0, min(moment.end, truth.end) - max(moment.begin, truth.begin)) if moment.cpu == truth.cpu else 0.0


def judged(one: Labelled) -> tuple[int, int, int, int]:
    """Truths, truths found, moments, moments that are right."""
    moments = find_moments(one.capture)
    found = sum(any(overlap(m, t) >= 0.5 * (t.end - t.begin) for m in moments) for t in one.truths)
    right = sum(any(overlap(m, t) >= 0.5 * (m.end - m.begin) for t in one.truths) for m in moments)
    return len(one.truths), found, len(moments), right


def score(name: str, seeds: range) -> tuple[float, float]:
    totals = [0, 0, 0, 0]
    by_kind: dict[str, list[int]] = {}
    for seed in seeds:
        one = build(seed)
        result = judged(one)
        totals = [total + value for total, value in zip(totals, result, strict=True)]
        by_kind[one.kind] = [a + b for a, b in zip(by_kind.get(one.kind, [0, 0, 0, 0]), result, strict=True)]
    truths, found, moments, right = totals
    recall, precision = found / max(1, truths), right / max(1, moments)
    print(f"{name}: {len(seeds)} captures, {truths} truths, recall {recall:.3f}, precision {precision:.3f}")
    for kind, (t, f, m, r) in sorted(by_kind.items()):
        print(f"   {kind:<22} truths {t:>3}, found {f:>3}; moments {m:>3}, right {r:>3}")
    return recall, precision


def named() -> None:
    """Of the moments found, how many name the stack that did it."""
    right = total = 0
    for seed in TEST:
        one = build(seed)
        shape = shape_of(one.capture.tree)
        for moment in find_moments(one.capture):
            if any(overlap(moment, truth) > 0 for truth in one.truths):
                total += 1
                right += explain(one.capture, shape, moment).stack[-1:] == ("mem_cgroup_css_rstat_flush",)
    print(f"stack named rightly: {right} of {total}")


def main() -> int:
    score("tuning set", TUNING)
    recall, precision = score("test set", TEST)
    named()
    return 0 if recall >= 0.95 and precision >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
