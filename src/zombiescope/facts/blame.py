# SPDX-License-Identifier: Apache-2.0
"""Which kernel functions burnt a core while it was saturated, for which process, and what that is in plain words."""

from __future__ import annotations

from typing import NamedTuple


class KernelSample(NamedTuple):
    at: float
    """Seconds since the epoch."""
    core: int
    thread: int
    frames: tuple[str, ...]
    """Functions, innermost first."""


class KernelSamples(NamedTuple):
    rate_hz: int
    lost: int
    samples: tuple[KernelSample, ...]
    threads: tuple[tuple[int, str], ...]
    """Names of the threads that were sampled, as far as they still lived."""


class Share(NamedTuple):
    name: str
    share: float
    """Of the samples (0 to 1)."""


class Blamed(NamedTuple):
    """Of one stretch."""

    core: int
    begin: float
    samples: int
    functions: tuple[Share, ...]
    """By where the core was: they add up to at most 1."""
    causes: tuple[Share, ...]
    """In plain words, by any function of the call chain: one sample may count for several."""
    processes: tuple[Share, ...]


class Blame(NamedTuple):
    rate_hz: int
    samples: int
    lost: int
    stretches: tuple[Blamed, ...]

    def of(self, core: int, begin: float) -> Blamed | None:
        """Of the stretch that began then."""
        return next((each for each in self.stretches if (each.core, each.begin) == (core, begin)), None)
