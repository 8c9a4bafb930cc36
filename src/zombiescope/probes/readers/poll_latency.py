# SPDX-License-Identifier: Apache-2.0
"""Opens what follows the network's softirqs for ever. Where the kernel keeps them is read from its types in a short-lived child, so
that their megabytes are nobody's for long."""

from __future__ import annotations

import json
import re
import select
from typing import Protocol

from zombiescope.errors import ObservationError
from zombiescope.facts.softirq import PollLook
from zombiescope.host.access import Host
from zombiescope.host.children import ShortLived
from zombiescope.kernel.bpf_object import BpfRefusedError
from zombiescope.kernel.bpf_poll import Places, PollLatency, places_in
from zombiescope.probes.kernel_text import cpu_list_count, number

_TYPES = b"/sys/kernel/btf/vmlinux"
_MOST_TYPES = 64 << 20
_ONLINE, _POSSIBLE = b"/sys/devices/system/cpu/online", b"/sys/devices/system/cpu/possible"
_FIRST = re.compile(rb"[-,]")
_MOST_SECONDS = 60.0
_FIRST_COUNTS_SECONDS = 0.05
_WHAT = "cannot follow the network's softirqs"


class Following(Protocol):
    """What a watch needs of it."""

    @property
    def is_stamping(self) -> bool: ...
    def read(self) -> PollLook: ...
    def stamp(self) -> None: ...
    def rest(self) -> None: ...
    def stamp_for(self, seconds: float) -> float | None: ...
    def close(self) -> None: ...


def open_poll_latency(host: Host, *, has_clock: bool = True) -> PollLatency:
    """`has_clock`: asks for a clock of its own, else it goes by the kernel's ticks. Raises ObservationError where it is refused."""
    try:
        cores = cpu_list_count(host.read(_POSSIBLE))
    except OSError:
        cores = None
    if not cores:
        raise ObservationError(
            _WHAT, f"{_POSSIBLE.decode()} does not say how many cores there are", "zombiescope self-check"
        )
    try:
        following = PollLatency(host.wall_clock, cores, _first_online(host) if has_clock else None, _places(host))
    except BpfRefusedError as error:
        raise ObservationError(_WHAT, error.why, error.hint) from error
    host.wait(_FIRST_COUNTS_SECONDS)
    return following


def _first_online(host: Host) -> int:
    try:
        return number(_FIRST.split(host.read(_ONLINE).strip())[0]) or 0
    except OSError:
        return 0


def _places(host: Host) -> Places:
    def work() -> bytes:
        try:
            return json.dumps(places_in(host.read(_TYPES, _MOST_TYPES))).encode()
        except ObservationError as error:
            return json.dumps(error.why).encode()
        except OSError as error:
            return json.dumps(f"{_TYPES.decode()}: {(error.strerror or str(error)).lower()}").encode()

    try:
        child = ShortLived(work)
    except OSError as error:
        raise ObservationError(
            _WHAT, f"no process could be started: {error.strerror}", "raise the limit of processes"
        ) from error
    while not (is_done := child.collect()):
        if not select.select([child.descriptor], [], [], _MOST_SECONDS)[0]:
            break
    said = child.end(kill=not is_done)
    found = json.loads(said) if said else "the process that read the kernel's types gave no answer"
    if isinstance(found, str):
        raise ObservationError(_WHAT, found, "boot a kernel with CONFIG_DEBUG_INFO_BTF")
    return Places(*found)
