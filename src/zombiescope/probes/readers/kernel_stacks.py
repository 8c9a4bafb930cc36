# SPDX-License-Identifier: Apache-2.0
"""Where the kernel spends its time on each core: call chains at 99 Hz by perf_event_open(2), named by /proc/kallsyms. No perf
binary. Symbols are read only when somebody asks for names: they cost more than the sampling."""

from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress

from zombiescope.facts.cores import KernelSample, KernelSamples
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.access import Host, read_or_nothing
from zombiescope.host.live import LiveHost
from zombiescope.kernel.perf_events import Sampler, StackSample, kernel_only, parse_rings
from zombiescope.probes.kernel_text import refusal

FACT = "stretches[].blame"
RATE_HZ, _RING_PAGES, _MOST_SAMPLES = 99, 16, 200_000
_KALLSYMS, _KALLSYMS_LIMIT = b"/proc/kallsyms", 128 << 20
_FAR, _CODE = 1 << 20, b"TtWw"


class KernelStacks:
    """Open from the first call of `open_kernel_stacks` until `close`."""

    def __init__(self, host: Host, sampler: Sampler) -> None:
        self._host, self._sampler = host, sampler
        self._samples: list[StackSample] = []
        self._threads: dict[int, str] = {}
        self._lost = 0

    @property
    def taken(self) -> int:
        """Samples so far."""
        return len(self._samples)

    def drain(self) -> None:
        """Often enough that no ring overflows: twice a second."""
        found = parse_rings(self._sampler.drain())
        self._lost += found.lost
        room = _MOST_SAMPLES - len(self._samples)
        self._lost += max(len(found.samples) - room, 0)
        self._samples += found.samples[:room]
        for sample in found.samples[:room]:
            if sample.thread not in self._threads:
                name = read_or_nothing(self._host, b"/proc/%d/comm" % sample.thread).rstrip(b"\n")
                self._threads[sample.thread] = shown(name) if name else f"thread {sample.thread}"

    def close(self) -> None:
        self._sampler.close()

    def why_nameless(self) -> Gap | None:
        """Why no function could be named; None where they can."""
        named = self._functions(set())
        return named if isinstance(named, Gap) else None

    def named(self, times: Iterable[tuple[int, float, float]], clock_offset: float) -> KernelSamples | Gap:
        """The samples of those cores and times (core, begin, end), with the names of their functions."""
        wanted = list(times)
        chosen = [
            sample
            for sample in self._samples
            if any(core == sample.core and begin <= sample.at + clock_offset <= end for core, begin, end in wanted)
        ]
        frames = {frame for sample in chosen for frame in sample.frames}
        names = self._functions(frames) if frames else {}
        if isinstance(names, Gap):
            return names
        return KernelSamples(
            RATE_HZ,
            self._lost,
            tuple(
                KernelSample(
                    sample.at + clock_offset, sample.core, sample.thread, tuple(names[at] for at in sample.frames)
                )
                for sample in chosen
            ),
            tuple((thread, self._threads[thread]) for thread in sorted({sample.thread for sample in chosen})),
        )

    def _functions(self, addresses: set[int]) -> dict[int, str] | Gap:
        try:
            return name_addresses(self._host.read(_KALLSYMS, _KALLSYMS_LIMIT), addresses)
        except OSError as error:
            return refusal(FACT, _KALLSYMS, error)


def open_kernel_stacks(host: Host, cores: list[int]) -> KernelStacks | Gap:
    if not isinstance(host, LiveHost) or host.root:  # a recording keeps no names of programs
        return Gap(FACT, "call chains can be sampled on the running host only", "run it on the host itself")
    sampler = Sampler(RATE_HZ, pages=_RING_PAGES, ask=kernel_only)
    try:
        sampler.open(cores)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return Gap(FACT, f"perf_event_open: {why}", "run as root or with CAP_PERFMON; see kernel.perf_event_paranoid")
    return KernelStacks(host, sampler)


def name_addresses(text: bytes, addresses: set[int]) -> dict[int, str] | Gap:
    """By the nearest function at or below each; an address far above every function has no name."""
    places: list[tuple[int, bytes]] = []
    for line in text.split(b"\n"):
        kind, name = line[17:18], line[19:]
        if kind and kind in _CODE and name:
            with suppress(ValueError):
                places.append((int(line[:16], 16), name))
    places.sort()
    starts = [start for start, _ in places]
    if not starts or not starts[-1]:
        return Gap(FACT, "the kernel hides the addresses of its functions (kallsyms)", "run as root or with CAP_SYSLOG")
    found: dict[int, str] = {}
    for address in addresses:
        at = bisect_right(starts, address) - 1
        is_near = at >= 0 and address - starts[at] < _FAR
        found[address] = shown(places[at][1].partition(b"\t")[0]) if is_near else "[unknown]"
    return found
