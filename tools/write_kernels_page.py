# SPDX-License-Identifier: Apache-2.0
"""docs/reference/kernels.json and kernels.md, from what the cells of the kernel matrix brought home in build/vm.

Cells that were not run keep what the page said of them. `tools/record_machines.py` or `make test-vm-all` first, then this.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.vm.cells import CELLS, UNTRIED, Cell  # noqa: E402
from tests.vm.kernel_tier import TIER, Carried, is_carried  # noqa: E402
from tests.vm.stories.interfaces import TIERS  # noqa: E402

TABLE = ROOT / "docs/reference/kernels.json"
PAGE = ROOT / "docs/reference/kernels.md"
RESULTS = ROOT / "build/vm"

Seen = dict[str, dict[str, bool | int | str]]

_HEAD = """# What works on which kernel

Counts of zombies, the sweep and the ledger by polling need nothing but plain files and work on every kernel that was tried.
The other tiers need more of the kernel; where one is missing the next answers, and the report says which and why.

Written by `tools/write_kernels_page.py` from what the stories saw inside each machine of the kernel matrix
(`tests/vm/stories/interfaces.py` asks); a story in each machine fails when this page is not true of it.
The tool itself never looks at a version: it probes for the file, the field or the error.

"""


_NOTES = """The BPF walk needs `bpf_loop` (Linux 5.17). The walk through `/proc/kcore` needs BTF and the addresses of data in
`/proc/kallsyms` (`CONFIG_KALLSYMS_ALL`), which Debian's 6.1 cloud kernel for arm64 does not list; it does not depend on the
layout of memory: 4-level, 5-level (52-bit) and 16 KiB page tables were walked. Lockdown, seccomp and missing capabilities refuse
tiers on any kernel; `zombiescope autopsy` names the reason.

"""


def collect(results: Path, told: Seen) -> Seen:
    seen: Seen = {}
    for cell in CELLS:
        path = results / cell.name / "interfaces.json"
        if path.exists():
            seen[cell.name] = json.loads(path.read_text())
        elif cell.name in told:
            seen[cell.name] = told[cell.name]
    return seen


def render(seen: Seen) -> str:
    cells = [cell for cell in CELLS if cell.name in seen]
    names = [name for name in dict.fromkeys(name for answers in seen.values() for name in answers) if name not in TIERS]
    lines = ["## Interfaces", ""]
    lines += ["| | " + " | ".join(cell.name for cell in cells) + " |", "|---|" + "---|" * len(cells)]
    lines += [f"| {name} | " + " | ".join(_word(seen[cell.name].get(name)) for cell in cells) + " |" for name in names]
    text = (
        _HEAD
        + _tiers(seen, cells)
        + "\n".join(lines)
        + "\n\n## Machines\n\n| cell | kernel | made of |\n|---|---|---|\n"
    )
    text += "".join(f"| {cell.name} | {cell.kernel} | {made_of(cell)} |\n" for cell in cells)
    text += _kernel_tier([cell for cell in cells if cell.required], cells)
    text += "\n## What was not tried\n\n| variant | reason |\n|---|---|\n"
    return text + "".join(f"| {variant.name} | {variant.reason} |\n" for variant in UNTRIED)


def _tiers(seen: Seen, cells: list[Cell]) -> str:
    """From which kernel on each tier works, by architecture; kernels that do not have it are named."""
    architectures = list(dict.fromkeys(str(seen[cell.name]["architecture"]) for cell in cells))
    text = "## Tiers\n\n| | " + " | ".join(architectures) + " |\n|---|" + "---|" * len(architectures) + "\n"
    for tier in TIERS:
        told = [
            _told(seen, [cell for cell in cells if seen[cell.name]["architecture"] == each], tier)
            for each in architectures
        ]
        text += f"| {tier} | " + " | ".join(told) + " |\n"
    return text + "\n" + _NOTES


def _told(seen: Seen, cells: list[Cell], tier: str) -> str:
    kernels = sorted({cell.kernel for cell in cells}, key=lambda kernel: [int(part) for part in kernel.split(".")])
    works = {kernel: [seen[cell.name][tier] for cell in cells if cell.kernel == kernel] for kernel in kernels}
    without = [kernel for kernel in kernels if not all(works[kernel])]
    having = [kernel for kernel in kernels if kernel not in without]
    if not having:
        return f"not on {', '.join(without)}"
    return "from " + having[0] + (f"; not on {', '.join(without)}" if without else "")


def _kernel_tier(required: list[Cell], cells: list[Cell]) -> str:
    """Which tests of the running kernel also run inside which machines."""
    text = "\n## The kernel tier in the machines\n\n"
    text += "| file | in CI (`make test-vm`) | `make test-vm-all` | not elsewhere, because |\n|---|---|---|---|\n"
    for carried in TIER:
        in_ci = [cell.name for cell in required if is_carried(carried, cell, "required")]
        in_all = [cell.name for cell in cells if is_carried(carried, cell, "all")]
        text += f"| `{carried.file}` | {_names(in_ci, required)} | {_names(in_all, cells)} | {_why(carried, in_all, cells)} |\n"
    return text


def _names(names: list[str], cells: list[Cell]) -> str:
    return "all" if len(names) == len(cells) else ", ".join(names) or "-"


def _why(carried: Carried, names: list[str], cells: list[Cell]) -> str:
    if len(names) == len(cells):
        return "-"
    variants = any(cell.name not in names and carried.where(cell) for cell in cells)
    return "; ".join([*filter(None, [carried.reason]), *(["a machine of the same kernel has it"] if variants else [])])


def _word(answer: bool | int | str | None) -> str:
    if isinstance(answer, bool):
        return "yes" if answer else "-"
    return "?" if answer is None else str(answer)


def made_of(cell: Cell) -> str:
    parts = [] if cell.platform == "amd64" else [cell.platform]
    parts += [f"{cell.image} image", f"{cell.init} as init", f"cgroup {cell.hierarchy}"]
    parts += [f"{cell.swap_megabytes} MB swap"] if cell.swap_megabytes else []
    parts += [f"{cell.numa_nodes} NUMA nodes"] if cell.numa_nodes > 1 else []
    parts += ["MGLRU on"] if cell.mglru else []
    parts += ["SELinux enforcing"] if cell.selinux else []
    return ", ".join([*parts, "in CI" if cell.required else "`make test-vm-all`"])


def main() -> int:
    told: Seen = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    seen = collect(RESULTS, told)
    TABLE.write_text(json.dumps(seen, indent=1) + "\n")
    PAGE.write_text(render(seen))
    missing = [cell.name for cell in CELLS if cell.name not in seen]
    if missing:
        print(f"never seen: {', '.join(missing)} (run make test-vm-all)", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
