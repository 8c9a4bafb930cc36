# SPDX-License-Identifier: Apache-2.0
"""What of us works on this host, by trying it: `self-check`. Each way is opened as its command opens it, and closed at once; so
are the two places that an agent needs, its state folder and its address.

Reads only: the BPF programs and perf events that are tried go away with their descriptors, the port is closed again, and no
folder is made. A part that is refused is a gap with the kernel's own reason; the parts know nothing of each other.
"""

from __future__ import annotations

import errno
import os
import platform
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

from zombiescope import __version__
from zombiescope.config import listen_address
from zombiescope.errors import IS_ONE_FILE, UsageError, ZombiescopeError, reason_of
from zombiescope.facts.cgroups import Hierarchy, Look
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import EventTier
from zombiescope.facts.self_check import Build, CheckedPart, SelfCheck
from zombiescope.facts.zombies import Tier
from zombiescope.host.access import Host
from zombiescope.host.own_folder import STATE, own_folder
from zombiescope.host.zstd import ZstdLibrary
from zombiescope.pipeline.opening import Progress
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.cgroup_census import read_one_look
from zombiescope.probes.readers.cgroup_lifecycle import open_ledger
from zombiescope.probes.readers.kernel_log import open_kernel_log
from zombiescope.probes.readers.kernel_stacks import open_kernel_stacks
from zombiescope.probes.readers.node import read_identity, read_levers
from zombiescope.probes.readers.page_pins import try_page_frames
from zombiescope.probes.readers.reclaim_rates import ReclaimWindow
from zombiescope.probes.readers.softirq_wait import LatencyWindow, read_nic_counters
from zombiescope.probes.readers.systemd_state import read_systemd_state
from zombiescope.probes.readers.zombie_walk import try_zombie_walk

_ROOT_FOLDER = "run as root, or choose another folder: zombiescope agent --state DIR"


def try_history(folder: str) -> str | Gap:
    """Whether history could be kept there; a folder that is missing is not made, only the way to it is looked at."""
    if not folder:
        return Gap("", "no state folder is configured", "zombiescope agent --state DIR")
    try:
        with own_folder(folder + "/.", STATE) as opened:
            if os.access(".", os.W_OK | os.X_OK, dir_fd=opened, effective_ids=True):
                return "the folder can be written"
            return Gap("", f"{folder} may not be written", _ROOT_FOLDER)
    except FileNotFoundError:
        return _could_be_made(folder)
    except OSError as error:
        return Gap("", f"{folder}: {reason_of(error)}", _ROOT_FOLDER)


def _could_be_made(folder: str) -> str | Gap:
    above = os.path.abspath(folder)
    while not os.path.isdir(above) and above != "/":
        above = os.path.dirname(above)
    if os.access(above, os.W_OK | os.X_OK, effective_ids=True) and not os.statvfs(above).f_flag & os.ST_RDONLY:
        return f"an agent would make the folder, in {above}"
    return Gap("", f"{folder} does not exist, and {above} may not be written", _ROOT_FOLDER)


def try_agent(listen: str) -> str | Gap | tuple[str, Gap]:
    """The packages that serve, and whether the address is free at this moment."""
    for package in ("prometheus_client", "h11"):
        if find_spec(package) is None:
            return Gap("", f"{package} is not installed", "pip install 'zombiescope[agent]'")
    try:
        where = listen_address(listen)
    except UsageError as error:
        return Gap("", error.why, error.hint)
    if where is None:
        return Gap("", "no address is configured", "zombiescope agent --listen 127.0.0.1:9753")
    if isinstance(where, str):
        return "a socket in the file system"
    family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(where)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                why = f"{listen} is in use at this moment, perhaps by an agent that runs already"
                return "the port is taken", Gap("", why, f"curl http://{listen}/healthz, or --listen 127.0.0.1:0")
            return Gap("", f"{listen}: {reason_of(error)}", "zombiescope agent --listen 127.0.0.1:0")
    return "the port is free"


_AS_ROOT = "run as root"


_Outcome = str | Gap | tuple[str, Gap]
"""How it works; why not; or how, and why not better."""


class _Trial(NamedTuple):
    name: str
    use: str
    used_by: str
    go: Callable[[], _Outcome]


def check_self(host: Host, state: str, listen: str, progress: Progress = lambda _: None) -> SelfCheck:
    """`state`, `listen`: what the agent would use, by its configuration."""
    hierarchy = read_memory_hierarchy(host)
    parts = []
    for trial in _trials(host, hierarchy, state, listen):
        progress(f"trying {trial.use}")
        parts.append(_tried(trial))
    return SelfCheck(host.wall_clock(), read_identity(host), _build(), os.geteuid() == 0, tuple(parts))


def _tried(trial: _Trial) -> CheckedPart:
    found: _Outcome
    try:
        found = trial.go()
    except ZombiescopeError as error:
        found = Gap("", error.why, error.hint)
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        found = Gap("", where + reason_of(error))
    part = CheckedPart(trial.name, trial.use, tuple(trial.used_by.split()))
    if isinstance(found, str):
        return part._replace(by=found)
    if isinstance(found, Gap):
        return part._replace(gap=found.about(f"parts.{trial.name}.by"))
    by, gap = found
    return part._replace(by=by, gap=gap.about(f"parts.{trial.name}.status"))


def _trials(host: Host, hierarchy: Hierarchy | Gap, state: str, listen: str) -> Iterator[_Trial]:
    yield _Trial("files", "count zombies", "scan check", _of(hierarchy, lambda memory: _files(host, memory)))
    yield _Trial("bytes", "bytes that zombies hold", "scan", _of(hierarchy, lambda memory: _bytes(host, memory)))
    yield _Trial("exact", "every zombie, by BPF", "autopsy scan", lambda: _walk(host, Tier.BPF))
    yield _Trial("kcore", "every zombie, by /proc/kcore", "autopsy", lambda: _walk(host, Tier.KCORE))
    yield _Trial("pages", "pages by owner", "autopsy", lambda: try_page_frames(host) or "kpagecgroup and kpageflags")
    yield _Trial(
        "events", "births, deaths, releases", "top agent", _of(hierarchy, lambda memory: _events(host, memory))
    )
    yield _Trial("levers", "free by reclaim", "plan apply reap", _of(hierarchy, lambda memory: _levers(host, memory)))
    yield _Trial("sampler", "kernel stacks", "cores doctor profile", lambda: _sampler(host))
    yield _Trial("softirq", "softirq latency", "doctor agent", lambda: _softirq(host))
    yield _Trial("reclaim", "cost of reclaim", "doctor agent", lambda: _reclaim(host))
    yield _Trial("pressure", "stalls (PSI)", "doctor verify", lambda: _pressure(host))
    yield _Trial("ethtool", "network card resets", "doctor agent", lambda: _ethtool(host))
    yield _Trial("kernel-log", "the kernel's log", "doctor agent", lambda: _kernel_log(host))
    yield _Trial("units", "services and restarts", "audit doctor", lambda: _units(host))
    yield _Trial("history", "history of the agent", "agent history", lambda: try_history(state))
    yield _Trial("agent", "port of the agent", "agent", lambda: try_agent(listen))
    yield _Trial("images", "images packed with zstd", "audit", _zstd)
    yield _Trial("profiles", "draw profiles", "profile", lambda: _package("numpy", "profile", _PROFILES))
    yield _Trial("screen", "full screen", "top", lambda: _package("textual", "tui", "zombiescope top prints tables"))


_PROFILES = "zombiescope profile record works here; import where numpy is installed"


def _of(hierarchy: Hierarchy | Gap, work: Callable[[Hierarchy], _Outcome]) -> Callable[[], _Outcome]:
    """Nothing to try where the memory cgroups were not found."""
    if isinstance(hierarchy, Gap):
        missing = hierarchy
        return lambda: missing
    return partial(work, hierarchy)


def _files(host: Host, hierarchy: Hierarchy) -> str | Gap:
    look = read_one_look(host, hierarchy)
    return f"cgroup {hierarchy.version}, {look.counted:,} counted" if isinstance(look, Look) else look


def _bytes(host: Host, hierarchy: Hierarchy) -> str | Gap:
    host.read(hierarchy.place(b"/", b"memory.stat"))
    return "memory.stat"


def _events(host: Host, hierarchy: Hierarchy) -> str | Gap | tuple[str, Gap]:
    ledger = open_ledger(host, hierarchy)
    if isinstance(ledger, Gap):
        return ledger
    with closing(ledger):
        if ledger.tier is EventTier.BPF:
            return "BPF"
        return ("tracefs" if ledger.tier is EventTier.TRACEFS else "polling"), _joined(ledger.refused)


def _joined(gaps: tuple[Gap, ...]) -> Gap:
    reasons = "; ".join(f"{gap.fact.rpartition('.')[2]}: {gap.reason}" for gap in gaps)
    return Gap("", reasons or "no better way was tried", next((gap.hint for gap in gaps if gap.hint), ""))


def _levers(host: Host, hierarchy: Hierarchy) -> str | Gap:
    levers = read_levers(host, hierarchy, [b"/" + name for name in host.subdirectories(hierarchy.place(b"/"))[:16]])
    files = [*levers.control_files, *levers.node_reclaim]
    if not files:
        return Gap("", "no file of a live cgroup frees memory on demand")
    usable = [path for path in files if os.access(path, os.W_OK, effective_ids=True)]
    names = sorted({os.path.basename(path).decode() for path in usable})
    return ", ".join(names) or Gap("", "the files that free memory on demand may not be written", _AS_ROOT)


def _walk(host: Host, tier: Tier) -> str | Gap:
    found = try_zombie_walk(host, tier)
    return found if isinstance(found, Gap) else f"{found:,} dead ones seen"


def _sampler(host: Host) -> str | Gap | tuple[str, Gap]:
    stacks = open_kernel_stacks(host, sorted(os.sched_getaffinity(0))[:1])
    if isinstance(stacks, Gap):
        return stacks
    stacks.close()
    nameless = stacks.why_nameless()
    return "perf_event_open" if nameless is None else ("perf_event_open, functions without names", nameless)


def _softirq(host: Host) -> str | Gap | tuple[str, Gap]:
    window = LatencyWindow(host, {})
    refused = window.refused
    told = window.end()
    if isinstance(told, Gap):
        return told
    return ("hist triggers", Gap("", refused, _AS_ROOT)) if window.is_least else "BPF"


def _reclaim(host: Host) -> str | Gap:
    with closing(ReclaimWindow(host)) as window:
        told = window.seen()
        return told if isinstance(told, Gap) else "BPF"


def _pressure(host: Host) -> str | Gap:
    try:
        host.read(b"/proc/pressure/memory")
    except OSError as error:
        why = f"/proc/pressure/memory: {reason_of(error)}"
        return Gap("", why, "a kernel from 4.20 on with CONFIG_PSI; where it is off by default, boot with psi=1")
    return "/proc/pressure"


def _ethtool(host: Host) -> str | Gap | tuple[str, Gap]:
    told = read_nic_counters(host)
    if isinstance(told, Gap):
        return told
    with_own = sum(bool(device.counters) for device in told)
    by = f"{with_own} of {len(told)} devices count resets of their own"
    if with_own or not told:
        return by
    return by, Gap("", "no driver here counts resets; transmit timeouts are read from sysfs where the kernel has them")


def _kernel_log(host: Host) -> str | Gap:
    log = open_kernel_log(host)
    if isinstance(log, Gap):
        return log._replace(hint="give it the host's /dev") if not os.path.exists("/dev/kmsg") else log
    log.close()
    return "/dev/kmsg"


def _units(host: Host) -> str | Gap:
    told = read_systemd_state(host)
    return told if isinstance(told, Gap) else f"{len(told):,} services by systemctl"


def _zstd() -> str | Gap:
    try:
        ZstdLibrary()
    except (OSError, AttributeError) as error:
        return Gap("", f"libzstd: {str(error).lower()}", "install libzstd, or unpack the image first")
    return "inside the one file" if IS_ONE_FILE else "libzstd.so.1"


def _package(name: str, extra: str, instead: str) -> str | Gap:
    if find_spec(name) is not None:
        return name
    if IS_ONE_FILE:
        return Gap("", "not in the one-file build", instead)
    return Gap("", f"{name} is not installed", f"pip install 'zombiescope[{extra}]'")


def _build() -> Build:
    kind = "one-file" if IS_ONE_FILE else "pyz" if sys.argv[0].endswith(".pyz") else "python"
    return Build(kind, __version__, platform.python_version(), platform.machine())
