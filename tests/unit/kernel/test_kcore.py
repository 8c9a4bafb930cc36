# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zombiescope.host.live import TreeHost
from zombiescope.kernel.kcore import KcoreError, KernelMemory, UnreadableError, read_symbols

_BASE = 0xFFFF_8880_0000_0000


def image(path: Path, memory: bytes, base: int = _BASE) -> str:
    """An ELF core with one segment of memory, as /proc/kcore is laid out."""
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<HH", header, 54, 56, 1)
    segment = struct.pack("<IIQQQQQQ", 1, 7, 4096, base, 0, len(memory), len(memory), 4096)
    path.write_bytes(bytes(header) + segment + bytes(4096 - 64 - 56) + memory)
    return str(path)


def test_memory_is_read_by_address_and_across_pages(tmp_path: Path) -> None:
    content = bytearray(8192)
    content[4090:4100] = b"0123456789"
    struct.pack_into("<q", content, 16, -5)
    memory = KernelMemory(image(tmp_path / "core", bytes(content)))
    assert memory.read(_BASE + 4090, 10) == b"0123456789"
    assert memory.text(_BASE + 4090) == b"0123456789"
    assert memory.signed(_BASE + 16) == -5
    assert memory.pointer(_BASE + 16) == (1 << 64) - 5
    memory.close()


def test_a_fresh_look_sees_what_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "core"
    memory = KernelMemory(image(path, bytes(4096)))
    assert memory.pointer(_BASE + 8) == 0
    with path.open("r+b") as file:
        file.seek(4096 + 8)
        file.write(struct.pack("<Q", 77))
    assert memory.pointer(_BASE + 8) == 0
    assert memory.fresh(_BASE + 8) == 77
    memory.close()


@pytest.mark.parametrize("address", [0, 8, _BASE - 1, _BASE + 8192, (1 << 64) - 4, 0xDEAD_0000_0000_0122])
def test_an_address_outside_the_kernels_memory_is_unreadable(tmp_path: Path, address: int) -> None:
    memory = KernelMemory(image(tmp_path / "core", bytes(8192)))
    with pytest.raises(UnreadableError):
        memory.read(address, 8)
    memory.close()


def test_memory_that_ends_early_is_unreadable(tmp_path: Path) -> None:
    path = image(tmp_path / "core", bytes(8192))
    with Path(path).open("r+b") as file:
        file.truncate(4096 + 5000)
    memory = KernelMemory(path)
    with pytest.raises(UnreadableError):
        memory.read(_BASE + 4096, 8)
    memory.close()


def test_no_core_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(KcoreError, match="built without it"):
        KernelMemory(str(tmp_path / "nothing"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200))
def test_garbage_in_place_of_a_core_is_an_error_in_words(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "garbage").write_bytes(content)
    with pytest.raises(KcoreError, match="no table of memory"):
        KernelMemory(str(tmp_path / "garbage"))


def symbols(tmp_path: Path, text: bytes) -> dict[str, int]:
    (tmp_path / "proc").mkdir(exist_ok=True)
    (tmp_path / "proc/kallsyms").write_bytes(text)
    return read_symbols(TreeHost(bytes(tmp_path)), ("root_mem_cgroup", "super_blocks"))


def test_symbols_are_found_by_their_whole_name(tmp_path: Path) -> None:
    text = b"ffffffff00000001 T not_root_mem_cgroup\nffffffff82a5b0e8 B root_mem_cgroup\nffffffff00000002 d super_blocks_x\n"
    assert symbols(tmp_path, text) == {"root_mem_cgroup": 0xFFFFFFFF82A5B0E8}


def test_hidden_addresses_are_said_to_be_hidden(tmp_path: Path) -> None:
    with pytest.raises(KcoreError, match="hides the addresses"):
        symbols(tmp_path, b"0000000000000000 T a\n" * 10 + b"0000000000000000 B root_mem_cgroup\n")


def test_no_table_of_symbols_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(KcoreError, match="kallsyms"):
        read_symbols(TreeHost(bytes(tmp_path)), ("root_mem_cgroup",))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.binary(max_size=200))
def test_any_bytes_are_a_table_of_symbols(tmp_path: Path, text: bytes) -> None:
    with suppress(KcoreError):
        symbols(tmp_path, text + b" root_mem_cgroup\n")
