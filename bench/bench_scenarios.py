# SPDX-License-Identifier: Apache-2.0
"""The labelled scenarios: which origin was named for which, how many were right, and what a diagnosis costs."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.scenarios.asked import Outcome, outcomes
from tests.scenarios.labels import read_first_asked, read_labels


def confusion(half: str, told: list[Outcome]) -> None:
    print(f"\nconfusion, {half}: {sum(each.is_right for each in told)} right of {len(told)} (labelled -> told)")
    for (labelled, found), count in sorted(Counter((each.label.origin, each.found.origin) for each in told).items()):
        print(f"  {labelled:<22}-> {found:<22}{count:>3}{'' if labelled == found else '  WRONG'}")


def main() -> int:
    labels = read_labels()
    start = time.process_time()
    told, untold = outcomes(labels)
    spent = time.process_time() - start
    print(f"{'scenario':<22}{'kind':<7}{'labelled origin':<22}{'told origin':<22}{'maker':<7}{'remedy':<8}findings")
    for each in told:
        words = ["right" if right else "WRONG" for right in (each.maker_right, each.remedy_right)]
        kind = "real" if each.is_recorded else "built"
        print(
            f"{each.label.name:<22}{kind:<7}{each.label.origin:<22}{each.found.origin:<22}{words[0]:<7}{words[1]:<8}"
            f"{'; '.join(each.wrong_findings) or 'right'}"
        )
    confusion("ours", [each for each in told if not each.label.held_out])
    confusion("held out while the rules were tuned", [each for each in told if each.label.held_out])
    first = read_first_asked()
    print("\nheld out, when first asked:")
    for name, score in first.items():
        print(f"  {name:<10}{score.right:>3} right of {score.of:<4}{score.note}")
    print(f"  {'all':<10}{sum(s.right for s in first.values()):>3} right of {sum(s.of for s in first.values())}")
    right = sum(each.is_right for each in told)
    real = sum(each.is_recorded for each in told)
    waiting = [each.label.name for each in told if each.label.real and not each.is_recorded]
    print(f"\nours {right} right of {len(told)} ({real} real runs); target all; ratio {right / max(len(told), 1):.2f}")
    print(f"built for as long as no run is recorded: {len(waiting)} ({', '.join(waiting) or 'none'})")
    print(f"labelled and not made: {len(untold)} ({', '.join(untold) or 'none'})")
    print(f"{1000 * spent / max(len(told), 1):.1f} ms of CPU a diagnosis, replays included")
    return 0 if right == len(told) else 1


if __name__ == "__main__":
    sys.exit(main())
