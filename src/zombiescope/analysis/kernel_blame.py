# SPDX-License-Identifier: Apache-2.0
"""Samples of a saturated stretch grouped: functions, processes, and causes in plain words by a table of every name that the same
work has had in any kernel."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from zombiescope.facts.cores import Blame, Blamed, KernelSample, KernelSamples, Share, Stretch

OTHER = "other"
_MOST = 10
_COMPILERS = re.compile(r"\.(isra|part|constprop|cold|llvm|lto_priv|localalias)\b.*")


class Causes(NamedTuple):
    exact: Mapping[str, str]
    """Function to cause."""
    beginnings: tuple[tuple[str, str], ...]
    words: Mapping[str, str]
    """Cause to what it is called in a sentence."""

    def of(self, function: str) -> str | None:
        name = _COMPILERS.sub("", function)
        return self.exact.get(name) or next((cause for start, cause in self.beginnings if name.startswith(start)), None)


def parse_causes(text: bytes) -> Causes:
    """Of `data/kernel_causes.toml`."""
    entries = tomllib.loads(text.decode("utf-8"))["cause"]
    exact: dict[str, str] = {}
    beginnings: list[tuple[str, str]] = []
    for entry in entries:
        for function in entry["functions"]:
            if function.endswith("*"):
                beginnings.append((function[:-1], entry["name"]))
            else:
                exact[function] = entry["name"]
    return Causes(exact, tuple(beginnings), {entry["name"]: entry["words"] for entry in entries})


def derive_blame(taken: KernelSamples, stretches: Iterable[Stretch], causes: Causes) -> Blame:
    threads = dict(taken.threads)
    found = tuple(_blamed(taken.samples, stretch, threads, causes) for stretch in stretches)
    return Blame(taken.rate_hz, sum(each.samples for each in found), taken.lost, found)


def _blamed(samples: Iterable[KernelSample], stretch: Stretch, threads: Mapping[int, str], causes: Causes) -> Blamed:
    end = stretch.begin + stretch.seconds
    mine = [each for each in samples if each.core == stretch.core and stretch.begin <= each.at <= end]
    functions = Counter(each.frames[0] if each.frames else "[unknown]" for each in mine)
    processes = Counter(threads.get(each.thread, f"thread {each.thread}") for each in mine)
    why: Counter[str] = Counter()
    for each in mine:
        why.update({cause for frame in each.frames if (cause := causes.of(frame))} or {OTHER})
    return Blamed(
        stretch.core,
        stretch.begin,
        len(mine),
        _shares(functions, len(mine)),
        _by_cause(_shares(why, len(mine)), causes),
        _shares(processes, len(mine)),
    )


def _by_cause(shares: tuple[Share, ...], causes: Causes) -> tuple[Share, ...]:
    """Among causes that weigh alike the one that comes first in the table: whoever reads a file while memory is reclaimed over
    dead cgroups pays for the walk, not for the reading."""
    order = {name: place for place, name in enumerate(causes.words)}
    return tuple(
        sorted(shares, key=lambda each: (-round(each.share, 1), order.get(each.name, len(order)), -each.share))
    )


def _shares(counted: Counter[str], total: int) -> tuple[Share, ...]:
    ranked = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Share(name, count / total) for name, count in ranked[:_MOST])
