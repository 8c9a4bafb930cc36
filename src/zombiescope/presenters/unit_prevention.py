# SPDX-License-Identifier: Apache-2.0
"""Drop-ins that keep a churning unit from hurting others: a slice of its own, and a hook that reclaims before its cgroup goes."""

from __future__ import annotations

_SLICE = """\
# {slice_file}
[Unit]
Description={unit} and what it leaves behind, apart from everybody else
Before=slices.target

[Slice]
MemoryAccounting=yes

# {drop_in}
[Service]
# Zombies are charged below the slice of the unit that made them. In a slice of its own, a limit or a reclaim on another
# slice does not walk over them. It frees nothing by itself.
Slice={slice_name}
"""

_HOOK = """\
# {drop_in}
[Service]
# Runs inside the unit's own cgroup when the last process of a run has ended, just before systemd removes it: what page cache
# the run was charged for is let go, so that no zombie stays. v2: memory.reclaim (5.19); v1: memory.force_empty. A kernel that
# has neither, or cannot free all of it, does not fail the unit. Shared memory that is left behind is not freed by this.
# Without swap meanwhile: reclaim would swap out the hook itself, and its swap entries would keep the cgroup as a zombie.
MemoryAccounting=yes
ExecStopPost=-/bin/sh -c '{command}'
"""

_FIND = (
    "while IFS=: read -r n c p; do "
    'case ",$$c," in *,memory,*) g=/sys/fs/cgroup/memory$$p;; ,,) u=/sys/fs/cgroup$$p;; esac; '
    'done </proc/self/cgroup; g="$${g:-$$u}"; '
)
_RECLAIM = (
    'k="$$g/memory.swap.max"; [ -w "$$k" ] || k="$$g/memory.swappiness"; '
    's=; [ -w "$$k" ] && read -r s <"$$k" && echo 0 >"$$k"; '
    'if [ -w "$$g/memory.reclaim" ]; then echo 1G >"$$g/memory.reclaim"; '
    'elif [ -w "$$g/memory.force_empty" ]; then echo 0 >"$$g/memory.force_empty"; fi; '
    '[ -z "$$s" ] || echo "$$s" >"$$k"'
)


def slice_name_of(unit: str) -> str:
    """A top-level slice: a dash in a slice's name is a level of the tree."""
    stem = unit.rpartition(".")[0] or unit
    return "".join(character if character.isalnum() else "_" for character in stem) + "_churn.slice"


def render_slice(unit: str) -> str:
    name = slice_name_of(unit)
    return _SLICE.format(
        unit=unit, slice_name=name, slice_file=f"/etc/systemd/system/{name}", drop_in=_drop_in(unit, "slice")
    )


def render_stop_hook(unit: str, *, sync: bool) -> str:
    """`sync`: write dirty files first, of the whole machine; without it they stay until the kernel has written them."""
    return _HOOK.format(drop_in=_drop_in(unit, "stop-hook"), command=("sync; " if sync else "") + _FIND + _RECLAIM)


def _drop_in(unit: str, what: str) -> str:
    return f"/etc/systemd/system/{unit}.d/zombiescope-{what}.conf"
