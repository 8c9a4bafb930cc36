# SPDX-License-Identifier: Apache-2.0
"""The committed BPF object is what its source compiles to."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kernel.command import IN_MACHINE
from tests.kernel.exact_tiers import told_if
from tools.build_bpf import SOURCES, build, differences

pytestmark = pytest.mark.kernel


@told_if(not IN_MACHINE)
@pytest.mark.parametrize("name", sorted(path.name.removesuffix(".bpf.c") for path in SOURCES.glob("*.bpf.c")))
def test_a_rebuild_gives_the_same_object(name: str, tmp_path: Path) -> None:
    rebuilt = build(SOURCES / f"{name}.bpf.c", tmp_path)
    assert differences((SOURCES / f"{name}.blob").read_bytes(), rebuilt) == []


@told_if(not IN_MACHINE)
def test_another_source_is_noticed(tmp_path: Path) -> None:
    """Whatever tools built it, one more field read from the kernel must show."""
    for name in (*(path.name for path in SOURCES.glob("*.h")), "memcg_walk.bpf.c"):
        text = (
            (SOURCES / name).read_text().replace("r->level = load32(cgroup + OFFSET(cgroup, level));", "r->level = 0;")
        )
        (tmp_path / name).write_text(text)
    other = build(tmp_path / "memcg_walk.bpf.c", tmp_path)
    assert differences((SOURCES / "memcg_walk.blob").read_bytes(), other)
