# SPDX-License-Identifier: Apache-2.0
"""What keeps a zombie: the steps every kind of pin goes through.

`prepare` runs outside and before; `charge` runs inside the cgroup that is about to die and must touch nothing but the
pin; `hand_over` and `adopt` pass what a living process must hold from the hopping process to the one that stays.
"""

import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from zombiescope.errors import ObservationError
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.safe_paths import held_open
from zombiescope.lab.hierarchy import MemoryHierarchy
from zombiescope.lab.truth import RunJournal

_SPARE_DESCRIPTORS, _SPARE_MAPPINGS = 64, 1000


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a run works."""

    run: str
    hierarchy: MemoryHierarchy
    subtree: str
    journal: RunJournal
    count: int


@dataclass(eq=False)
class Pin:
    """One kind. The defaults are those of a pin that stays by itself, such as a file."""

    kind: ClassVar[str]
    bytes_each = PAGE_BYTES
    is_held = False
    """A process must stay alive outside the dead cgroups."""
    is_nested = False
    """Each zombie has a dead child, and the child has the pin."""
    dies_last = False
    """The cgroups are removed only when the hopping process has ended and its memory has left them: see `finish`."""

    bench: Bench

    def refuse(self) -> None:
        """Raises when this host cannot have such zombies. Changes nothing."""

    def announce(self) -> None:
        """Journals what `prepare` and `charge` will make. Called by the command itself, before anything else."""

    def prepare(self, indexes: range) -> None:
        """Makes what can be made outside."""

    def arm(self, folder: str) -> None:
        """Sets up the cgroup before it is entered."""

    def charge(self, index: int, folder: str) -> None:
        """Inside the cgroup at `folder`: makes the pin."""

    def hand_over(self) -> None:
        """In the hopping process, after the last charge."""

    def finish(self, index: int, folder: str) -> None:
        """In the staying process, just before the cgroup is removed. Where the pin dies last nothing but it is charged there."""

    def adopt(self) -> None:
        """In the staying process, while the hopping one hands over."""

    def file(self, index: int) -> str | None:
        """The file as the kernel would name it, or none."""
        return None


def write_page(path: str) -> None:
    with held_open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)) as descriptor:
        os.write(descriptor, b"z" * PAGE_BYTES)


def require_descriptors(count: int) -> None:
    """Raises the limit on open files of this process, as far as root may."""
    wanted = count + _SPARE_DESCRIPTORS
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
    except (ValueError, OSError) as error:
        raise ObservationError(
            f"cannot hold {count} open files in one process",
            f"the kernel allows {hard} ({error})",
            "--count with a smaller number",
        ) from error


def require_mappings(count: int) -> None:
    try:
        limit = int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return
    if count + _SPARE_MAPPINGS > limit:
        raise ObservationError(
            f"cannot hold {count} mappings in one process",
            f"vm.max_map_count is {limit} and {_SPARE_MAPPINGS} are kept spare",
            f"--count {limit - _SPARE_MAPPINGS}, or sysctl vm.max_map_count={count + 2 * _SPARE_MAPPINGS}",
        )
