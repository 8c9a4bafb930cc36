# SPDX-License-Identifier: Apache-2.0
"""Which hierarchy owns memory, from the mount table and /proc/cgroups; never from a file system's name.

A row in /proc/cgroups with a hierarchy number other than 0 means v1. A row with 0, or no row at all (kernels built without
MEMCG_V1 hide it), says nothing by itself: then `memory` in a cgroup2 mount's cgroup.controllers means v2.
"""

from __future__ import annotations

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.access import Host
from zombiescope.probes.cgroups import CgroupMount, ControllerRow, read_cgroup_mounts, read_controller_row
from zombiescope.probes.kernel_text import refusal

FACT = "memcg.hierarchy"
_ROOT_INODE = 1
_CONFINED = "a security module such as SELinux refuses it: run outside of the domain that it confines (ausearch -m avc)"


def read_memory_hierarchy(host: Host) -> Hierarchy | Gap:
    mounts = read_cgroup_mounts(host, FACT)
    if isinstance(mounts, Gap):
        return mounts
    row = read_controller_row(host)
    if isinstance(row, ControllerRow) and not row.is_enabled:
        return Gap(FACT, "the memory controller is off", "boot without cgroup_disable=memory")
    is_hybrid = any(mount.is_v2 for mount in mounts) and any(not mount.is_v2 for mount in mounts)
    v1 = [mount for mount in mounts if not mount.is_v2 and b"memory" in mount.options]
    if v1:
        return _whole_or_partial(host, HierarchyVersion.V1, v1, is_hybrid)
    if isinstance(row, ControllerRow) and row.hierarchy != 0:
        return Gap(
            FACT,
            f"memory is on cgroup v1 (hierarchy {row.hierarchy}), but that hierarchy is not mounted in this view",
            "run on the host itself, or give the host's root with --root",
        )
    offers = [(mount, _offers_memory(host, mount)) for mount in mounts if mount.is_v2]
    v2 = [mount for mount, offer in offers if offer is True]
    if v2:
        return _whole_or_partial(host, HierarchyVersion.V2, v2, is_hybrid)
    if refused := [offer for _, offer in offers if isinstance(offer, Gap)]:
        return refused[0]
    if not mounts:
        return Gap(FACT, "no cgroup file system is mounted in this view", "mount one, or run on the host itself")
    return Gap(FACT, "no mounted cgroup hierarchy has the memory controller", "boot a kernel with memory cgroups")


def _offers_memory(host: Host, mount: CgroupMount) -> bool | Gap:
    """A gap where nobody lets us see it: a security module, or a folder over the mount."""
    path = mount.point.rstrip(b"/") + b"/cgroup.controllers"
    try:
        return b"memory" in host.read(path).split()
    except PermissionError as error:  # anybody may read it, so it is no matter of being root
        return refusal(FACT, path, error)._replace(hint=_CONFINED)
    except OSError as error:
        return refusal(FACT, path, error)


def _whole_or_partial(host: Host, version: HierarchyVersion, mounts: list[CgroupMount], is_hybrid: bool) -> Hierarchy:
    """The mount that shows most: one of the whole hierarchy if there is any."""
    views = [(_why_partial(host, mount), mount) for mount in mounts]
    why, mount = next((view for view in views if not view[0]), views[0])
    return Hierarchy(version, mount.point, is_hybrid, why)


def _why_partial(host: Host, mount: CgroupMount) -> str:
    if mount.root != b"/":
        return (
            f"{shown(mount.point)} shows only {shown(mount.root)} of the hierarchy (a bind mount or a cgroup namespace)"
        )
    try:
        inode = host.inode(mount.point)
    except OSError as error:
        return f"{shown(mount.point)} cannot be opened in this view: {error.strerror}"
    if inode is not None and inode != _ROOT_INODE:
        return f"the top of {shown(mount.point)} is not the root cgroup (inode {inode}): this is a cgroup namespace"
    # The true root of v2 has neither file [every kernel: CFTYPE_NOT_ON_ROOT]; the root of a cgroup namespace has both.
    if mount.is_v2 and any(_exists(host, mount.point + b"/" + name) for name in (b"cgroup.type", b"cgroup.events")):
        return (
            f"the top of {shown(mount.point)} is not the root cgroup (it has cgroup.type): this is a cgroup namespace"
        )
    return ""


def _exists(host: Host, path: bytes) -> bool:
    try:
        host.read(path)
    except OSError:
        return False
    return True
