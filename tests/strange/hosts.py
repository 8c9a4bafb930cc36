# SPDX-License-Identifier: Apache-2.0
"""Hosts that lack what every other has. Each is this one, seen from a mount namespace in which something is covered, or by
somebody who may do less; gVisor is a kernel of its own. Nothing outside of the namespace changes."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_NAMESPACE = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
_NO_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
_CONTAINER = (
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--pid",
    "--cgroup",
    "--net",
    "--ipc",
    "--uts",
    "--fork",
)
_GVISOR = ("runsc", "--rootless", "--platform=ptrace", "--network=none", "--ignore-cgroups", "do")


class StrangeHost(NamedTuple):
    name: str
    prefix: tuple[str, ...]
    """What runs a command there."""
    said: dict[str, str]
    """Of these commands, words that the answer must hold: the gap has its own name."""
    is_whole: bool = False
    """Whether every command is tried, or only those that `said` names."""

    @property
    def missing(self) -> str | None:
        """A program that this needs and the machine does not have."""
        return next((program for program in self.prefix[:1] if not shutil.which(program)), None)


def _covered(folders: Sequence[str], files: Sequence[str] = (), then: Sequence[str] = ()) -> tuple[str, ...]:
    """Empty folders and empty files over those that are there."""
    lines = [f"test ! -d {place} || mount -t tmpfs none {place}" for place in folders]
    lines += [f"test ! -e {place} || mount --bind /dev/null {place}" for place in files]
    return (*_NAMESPACE, "; ".join(["set -e", *lines, f'exec {shlex.join(then)} "$@"']), "sh")


_BTF, _KCORE = "/sys/kernel/btf", ("/proc/kcore", "/proc/kallsyms")
_TRACEFS = ("/sys/kernel/tracing", "/sys/kernel/debug")
_PAGES = ("/proc/kpagecgroup", "/proc/kpageflags", "/proc/kpagecount")
_REFUSED = (sys.executable, str(Path(__file__).with_name("refused.py")))
_NO_MOUNTS = "/proc/self/mountinfo: no such file or directory"

_HAVE_COUNTS = ("scan", "autopsy", "doctor", "top")


def _said(words: str, *commands: str) -> dict[str, str]:
    return dict.fromkeys(commands, words)


HOSTS = (
    StrangeHost("no /proc", _covered(["/proc"]), _said(_NO_MOUNTS, *_HAVE_COUNTS, "check", "reap"), is_whole=True),
    StrangeHost("no /sys", _covered(["/sys"]), _said("/sys/fs/cgroup", "scan", "check", "reap"), is_whole=True),
    StrangeHost("neither", _covered(["/sys", "/proc"]), _said(_NO_MOUNTS, *_HAVE_COUNTS, "check"), is_whole=True),
    StrangeHost("no cgroups", _covered(["/sys/fs/cgroup"]), _said("/sys/fs/cgroup", "scan", "check", "audit")),
    StrangeHost("no BPF", _REFUSED, {**_said("", *_HAVE_COUNTS), "autopsy": "bpf("}),
    StrangeHost("no BPF, no BTF", _covered([_BTF], then=_REFUSED), {"autopsy": "/sys/kernel/btf"}),
    StrangeHost("no BPF, no kcore", _covered([], _KCORE, _REFUSED), {"autopsy": "/proc/k"}),
    StrangeHost("no BPF, no tracefs", _covered(_TRACEFS, then=(*_REFUSED, *_NO_RIGHTS)), {"top": "trac"}),
    StrangeHost("no PSI", _covered(["/proc/pressure"]), _said("/proc/pressure", "doctor")),
    StrangeHost(
        "a kernel that tells nothing",
        _covered([_BTF, *_TRACEFS, "/proc/pressure"], (*_KCORE, *_PAGES), (*_REFUSED, *_NO_RIGHTS)),
        _said("bpf(", "autopsy"),
        is_whole=True,
    ),
    StrangeHost("root without capabilities", _NO_RIGHTS, {**_said("", *_HAVE_COUNTS), "autopsy": "not permitted"}),
    StrangeHost("a container", (*_CONTAINER, "--mount-proc"), _said("of the hierarchy", "scan"), is_whole=True),
    StrangeHost("gVisor", _GVISOR, _said("no cgroup file system", "scan", "check", "autopsy"), is_whole=True),
)
