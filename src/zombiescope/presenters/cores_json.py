# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.cores/1`: the window, each core's shares and strip, saturated stretches with who burnt them."""

from __future__ import annotations

from collections.abc import Sequence

from zombiescope.facts.cores import Blame, Blamed, CoreMode, CoresSeen, CoreTime, CoreUse, Share, Stretch
from zombiescope.facts.gap import Gap
from zombiescope.presenters.cores_text import is_mostly_lost, strip
from zombiescope.presenters.document import Dated, Json, document, rfc3339

_UNTOLD = Gap(
    "saturated", "most of the time is unaccounted for: neither busy nor idle", "watch again, on the host itself"
)
_WINDOW = ("began_at", "seconds", "interval_seconds", "cores")


def render_cores(dated: Dated, seen: CoresSeen | Gap) -> Json:
    if isinstance(seen, Gap):
        body: Json = {
            "window": dict.fromkeys(_WINDOW),
            "saturated": {"seconds": None, "longest_seconds": None, "by_mode": None},
            "stretches": [],
            "cores": [],
        }
        missing = [f"window.{name}" for name in _WINDOW]
        missing += [f"saturated.{name}" for name in ("seconds", "longest_seconds", "by_mode")]
        return document("cores/1", dated, body, [seen.about(name) for name in (*missing, "stretches", "cores")])
    by_mode = {
        mode.value: round(sum(each.seconds for each in seen.stretches if each.mode is mode), 3) for mode in CoreMode
    }
    untold = not seen.stretches and is_mostly_lost(seen)
    saturated = {
        "seconds": round(seen.saturated_seconds, 3),
        "longest_seconds": round(seen.longest.seconds, 3) if seen.longest else 0.0,
        "by_mode": by_mode,
    }
    body = {
        "window": {
            "began_at": rfc3339(seen.began_at),
            "seconds": round(seen.seconds, 3),
            "interval_seconds": round(seen.interval_seconds, 3),
            "cores": seen.cores,
        },
        "saturated": dict.fromkeys(saturated) if untold else saturated,
        "stretches": [_stretch(stretch, seen.blame) for stretch in seen.stretches],
        "cores": [_core(use, seen) for use in seen.uses],
    }
    unblamed = [seen.blame] if isinstance(seen.blame, Gap) and seen.stretches else []
    unknown = [_UNTOLD.about(f"saturated.{name}") for name in saturated] if untold else []
    return document("cores/1", dated, body, [*seen.gaps, *unblamed, *unknown])


def _stretch(stretch: Stretch, blame: Blame | Gap) -> Json:
    return {
        "core": stretch.core,
        "begin": rfc3339(stretch.begin),
        "seconds": round(stretch.seconds, 3),
        "mode": stretch.mode.value,
        "kernel_share": round(stretch.share, 3),
        "is_cut": stretch.is_cut,
        "blame": _blamed(None if isinstance(blame, Gap) else blame.of(stretch.core, stretch.begin)),
    }


def _blamed(blamed: Blamed | None) -> Json | None:
    return blamed and {
        "samples": blamed.samples,
        "functions": _shares(blamed.functions),
        "causes": _shares(blamed.causes),
        "processes": _shares(blamed.processes),
    }


def _shares(shares: Sequence[Share]) -> list[Json]:
    return [{"name": each.name, "share": round(each.share, 3)} for each in shares]


def _core(use: CoreUse, seen: CoresSeen) -> Json:
    total = use.time.total or 1.0
    columns = max(len(use.windows), 1)
    return {
        "core": use.core,
        **{name: round(getattr(use.time, name) / total, 4) for name in CoreTime._fields},
        "strip": strip(use.windows, seen.began_at, seen.seconds, columns),
    }
