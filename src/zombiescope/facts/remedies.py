# SPDX-License-Identifier: Apache-2.0
"""What can be done, each thing by one name and in the words that people read: what frees a zombie, what a finding asks for, what
a recipe plans."""

from enum import StrEnum
from typing import Self


class Remedy(StrEnum):
    """Those that free a zombie come first, in the order of the harm they do."""

    words: str
    """What to do, in a sentence; {whom} is who makes them."""
    alone: str
    """The same for a single zombie."""
    doing: str
    """As a thing: what frees it."""
    cost: str
    """Of those that free a zombie."""

    def __new__(cls, name: str, words: str = "", alone: str = "", doing: str = "", cost: str = "") -> Self:
        self = str.__new__(cls, name)
        self._value_ = name
        self.words, self.alone, self.doing, self.cost = words, alone, doing, cost
        return self

    WAIT = (
        "wait",
        "wait: the kernel frees them by itself",
        "wait: the kernel frees it by itself",
        "waiting",
        "nothing",
    )
    FLUSH = (
        "flush",
        "write everything back, then let one cgroup die",
        "write everything back, then let one cgroup die",
        "writing everything back",
        "one sync and one new cgroup that dies at once; the disks must keep up",
    )
    REAP_PROCESS = (
        "reap-process",
        "make the parents of the dead processes wait for them",
        "wait for the dead process",
        "waiting for the dead process",
        "nothing: the process is dead, and its parent only has to wait for it",
    )
    DROP_FILE = (
        "drop-file",
        "drop the cached pages of the files that hold them",
        "drop the file's cache",
        "dropping the file's cache",
        "the file's cached pages are read again when they are needed",
    )
    RECLAIM_PARENT = (
        "reclaim-parent",
        "release the cached pages that hold them",
        "reclaim below the parent",
        "reclaim at the parent",
        "live siblings below the same parent lose cache too and read it again; time grows with the zombies",
    )
    SWAP_IN = (
        "swap-in",
        "bring their memory back from swap",
        "bring it back from swap",
        "bringing it back from swap",
        "memory for all that is in swap; the machine must have it free",
    )
    CLOSE_SOCKET = (
        "close-socket",
        "close the sockets that hold them",
        "close the socket",
        "closing the socket",
        "the connection",
    )
    UNMOUNT = (
        "unmount",
        "release the namespaces that hold them",
        "unmount what holds it",
        "unmounting",
        "the mount that holds a namespace",
    )
    RESTART_PROCESS = (
        "restart-process",
        "restart the process that holds their memory",
        "restart the process that holds it",
        "restarting the process",
        "what the process does",
    )
    DELETE_FILE = (
        "delete-file",
        "rewrite the files in memory that hold them, which keeps their data, or delete them",
        "delete the file",
        "rewriting or deleting the file",
        "the file and what is in it",
    )
    REMOVE_SEGMENT = (
        "remove-segment",
        "remove the System V segments that hold them",
        "remove the segment",
        "removing the segment",
        "the segment and what is in it",
    )
    REBOOT = (
        "reboot",
        "drain and reboot: nothing else frees them",
        "reboot: no lever of ours reaches it",
        "a reboot",
        "everything that runs",
    )
    STOP_UNIT = "stop-unit", "stop {whom} and keep it from starting again"
    STOP_WORKLOAD = "stop-workload", "stop {whom}: zombiescope plan has the commands for your cluster"
    STOP_CONTAINER = "stop-container", "keep its runtime from starting the container again, and stop it"
    STOP_MAKER = "stop-maker", "stop what makes more of them now: {whom}"
    LIMIT_RESTARTS = "limit-restarts", "limit the restarts of {whom}"
    OWN_SLICE = "own-slice", "give {whom} a slice of its own, so that only its own memory is reclaimed"
    FIX_UNIT_IN_IMAGE = "fix-unit-in-image", "keep {whom} from starting in the image that new hosts are made from"
    REMOVE_DIRECTORIES = "remove-directories", "remove the empty directories, and find who makes them"
    GIVE_MEMORY = "give-memory", "give more memory, or a higher limit, to what is short of it"
    RAISE_CPU_LIMIT = "raise-cpu-limit", "raise the CPU limit that is used up"
    LOWER_PRIORITY = "lower-priority", "lower the real-time priority"
    MOVE_HOST = "move-host", "move to another hypervisor: this one takes the CPUs away"
    NEWER_KERNEL = "newer-kernel", "use a kernel that hands a dead cgroup's pages to its parent"
    FIND_CPU = "find-cpu", "find out what uses the CPUs: cgroups are not the cause"
    LOOK_CLOSER = (
        "look-closer",
        "look where each can be seen: as root, with BPF or /proc/kcore (zombiescope autopsy says why not here)",
    )
    WATCH_LONGER = "watch-longer", "watch longer, to tell a wave from a leak: zombiescope doctor --seconds 180"
    LOOK_FROM_THE_HOST = "look-from-the-host", "look from the host, not from inside a container"

    @property
    def key(self) -> str:
        """As documents and recordings call what frees a zombie."""
        return self.value.replace("-", "_")

    @property
    def changes_nothing(self) -> bool:
        """It only finds out more."""
        return self in _LOOKING


_LOOKING = (Remedy.FIND_CPU, Remedy.LOOK_CLOSER, Remedy.WATCH_LONGER, Remedy.LOOK_FROM_THE_HOST)
_BY_KEY = {each.key: each for each in Remedy}
LEVERS = tuple(each for each in Remedy if each.cost)
"""What frees a zombie, least harm first."""


def remedy_of(key: str) -> Remedy | None:
    """By its name in a document or a recording; None where there is no such remedy."""
    return _BY_KEY.get(key)
