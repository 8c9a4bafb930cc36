# SPDX-License-Identifier: Apache-2.0
"""Which tiers and which kinds of zombies this kernel has, by presence; what it has not is not told here, rather than skipped."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from zombiescope.facts.zombies import Tier
from zombiescope.kernel.bpf_object import BpfRefusedError
from zombiescope.kernel.bpf_walk import Walker
from zombiescope.kernel.btf import Btf

IS_V2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
_Test = TypeVar("_Test", bound=Callable[..., object])


def told_if(condition: bool) -> Callable[[_Test], _Test]:
    def mark(test: _Test) -> _Test:
        test.__test__ = condition  # type: ignore[attr-defined]
        return test

    return mark


def _has_bpf() -> bool:
    """A kernel before 5.17 says that the request is too long for it; any other refusal is for the test to report."""
    try:
        Walker(1).close()
    except BpfRefusedError as error:
        return error.number != errno.E2BIG
    return True


def _hands_pages_on() -> bool:
    """From 7.1 the pages of the dead belong to their parent: only other pins make zombies."""
    content = Path("/sys/kernel/btf/vmlinux").read_bytes()
    return Btf(content, ("mem_cgroup_per_node",)).offset("mem_cgroup_per_node.orig_objcg") is not None


HAS_BPF = os.geteuid() != 0 or _has_bpf()
HAS_KCORE = Path("/proc/kcore").exists() and b" root_mem_cgroup\n" in Path("/proc/kallsyms").read_bytes()
"""A kernel built without CONFIG_KALLSYMS_ALL does not say where its data is (Debian's 6.1 cloud kernel for arm64)."""
TIERS = [tier for tier, is_here in ((Tier.BPF, HAS_BPF), (Tier.KCORE, HAS_KCORE)) if is_here]
PAGES_PIN = not _hands_pages_on()
HAS_SWAP = len(Path("/proc/swaps").read_text().splitlines()) > 1
