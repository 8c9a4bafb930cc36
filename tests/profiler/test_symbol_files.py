# SPDX-License-Identifier: Apache-2.0
"""Files that name functions: the recorded build or none, also where only perf has kept a copy."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from tests.profiler import perf_files
from tests.profiler.perf_files import KALLSYMS, TOOLS, small_capture

from zombiescope.facts.gap import Gap
from zombiescope.profiler.files import symbol_files
from zombiescope.profiler.files.symbol_files import RunningKernel, SymbolFiles, map_file
from zombiescope.profiler.perf.elf_symbols import BrokenElf, open_elf
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.perf.kernel_code import KernelSymbols, read_kallsyms

NOBODY = 1 << 30


def any_library() -> tuple[str, str]:
    """One of those that this process has mapped, with its build id."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        try:
            if path and ".so" in path and (build_id := open_elf(map_file(b"/" + path.encode())).build_id()):
                return f"/{path}", build_id
        except (OSError, BrokenElf):
            continue
    pytest.skip("no library of this process has a build id")


def test_a_file_that_is_gone_is_taken_from_perfs_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, build_id = any_library()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert isinstance(SymbolFiles().elf("/gone/lib.so", build_id, NOBODY), Gap)
    kept = tmp_path / ".debug/.build-id" / build_id[:2] / build_id[2:]
    kept.mkdir(parents=True)
    shutil.copy(library, kept / "elf")
    assert not isinstance(SymbolFiles().elf("/gone/lib.so", build_id, NOBODY), Gap)


def test_a_copy_of_another_build_names_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, _ = any_library()
    monkeypatch.setenv("HOME", str(tmp_path))
    wanted = "ab" * 20
    kept = tmp_path / ".debug/.build-id" / wanted[:2] / wanted[2:]
    kept.mkdir(parents=True)
    shutil.copy(library, kept / "elf")
    found = SymbolFiles().elf("/gone/lib.so", wanted, NOBODY)
    assert isinstance(found, Gap)
    assert "build" in found.reason or "no such file" in found.reason


@pytest.mark.parametrize("build_id", ["", "..", "../../../../etc", "a/b/c/d", "zz"])
def test_a_build_id_is_no_way_out(build_id: str) -> None:
    assert isinstance(SymbolFiles().elf("/gone/lib.so", build_id, NOBODY), Gap)


def test_tables_that_lie_outside_of_a_file_are_a_gap(tmp_path: Path) -> None:
    library, build_id = any_library()
    raw = bytearray(Path(library).read_bytes())
    (sections_at,), (sections,) = struct.unpack_from("<Q", raw, 40), struct.unpack_from("<H", raw, 60)
    for at in range(sections_at, sections_at + 64 * sections, 64):
        if struct.unpack_from("<I", raw, at + 4)[0] in (2, 11):  # .symtab and .dynsym
            struct.pack_into("<Q", raw, at + 24, (1 << 64) - 1)
    (tmp_path / "lib.so").write_bytes(raw)
    found = SymbolFiles().elf(str(tmp_path / "lib.so"), build_id, NOBODY)
    assert isinstance(found, Gap)
    assert found.reason == "its tables lie outside of it"


def test_half_a_build_id_is_not_the_recorded_one() -> None:
    library, build_id = any_library()
    assert not isinstance(SymbolFiles().elf(library, build_id, NOBODY), Gap)
    for wanted in (build_id + "ab", build_id[:-2], "ab" * 20):
        assert isinstance(SymbolFiles().elf(library, wanted, NOBODY), Gap)


def test_our_own_code_map_is_believed_and_one_that_anybody_may_write_is_not(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    code_map = tmp_path / "tmp" / f"perf-{NOBODY}.map"
    files = SymbolFiles(root=bytes(tmp_path))
    assert files.jit(NOBODY) is None
    code_map.write_text("400000 1000 made\n")
    code_map.chmod(0o644)
    found = SymbolFiles(root=bytes(tmp_path)).jit(NOBODY)
    assert found is not None and not isinstance(found, Gap) and found.names == (b"made",)
    code_map.chmod(0o666)
    assert isinstance(SymbolFiles(root=bytes(tmp_path)).jit(NOBODY), Gap)


class Asked:
    """Whether each import said that no code of the kernel came or went."""

    def __init__(self) -> None:
        self.told: list[bool] = []

    def __call__(self, began: int | None, is_same: bool) -> KernelSymbols | Gap:
        self.told.append(is_same)
        return read_kallsyms(KALLSYMS)


def test_an_import_says_whether_code_of_the_kernel_came_or_went(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    tools = TOOLS._replace(kernel=asked)
    plain = small_capture()
    import_perf(memoryview(bytearray(plain.pipe())), tools, "a perf that would not tell")
    monkeypatch.setattr(perf_files, "FLAGS", perf_files.FLAGS | 1 << 29)
    for builder in (
        small_capture(),
        small_capture().ksymbol(5_000_000_500, 0xFFFFFFFFC0000000, 64, b"bpf_prog_1"),
        small_capture().lost(5_000_000_500, 3),
    ):
        import_perf(memoryview(bytearray(builder.pipe())), tools, "one that tells")
    assert asked.told == [False, True, False, False]


def test_the_running_kernels_symbols_are_read_again_only_where_they_may_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, modules = tmp_path / "kallsyms", tmp_path / "modules"
    texts.write_bytes(KALLSYMS)
    monkeypatch.setattr(symbol_files, "RUNNING_KALLSYMS", bytes(texts))
    monkeypatch.setattr(symbol_files, "_MODULES", bytes(modules))
    kernel = RunningKernel()
    first = kernel(None, True)
    assert not isinstance(first, Gap)
    assert kernel(None, True) is first
    assert (second := kernel(None, False)) is not first
    modules.write_bytes(b"one 1 0 - Live 0x0\n")
    assert (third := kernel(None, True)) is not second
    assert kernel(None, True) is third
    found = kernel(12345, True)
    assert isinstance(found, Gap)
    assert "another boot" in found.reason
    texts.write_bytes(b"")
    assert isinstance(kernel(None, False), Gap)
    assert isinstance(kernel(None, True), Gap), "what could not be read is asked for again"
    texts.write_bytes(KALLSYMS)
    assert not isinstance(kernel(None, True), Gap)
