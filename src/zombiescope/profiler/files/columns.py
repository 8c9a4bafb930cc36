# SPDX-License-Identifier: Apache-2.0
"""Columns of numbers for the scanner, without numpy."""

import ctypes
import os
from array import array
from collections.abc import Sequence
from copy import copy
from typing import Any, Literal

from zombiescope.profiler.perf import data_file
from zombiescope.profiler.perf.data_file import Layout
from zombiescope.profiler.stacks.about import BrokenCapture

BUILT = os.path.join(os.path.dirname(__file__), "libscanner.so")
VERSION = 5
"""Of the library: another one is not used."""

Form = Literal["B", "H", "I", "Q", "q"]
_WIDTHS: dict[Form, int] = {"B": 1, "H": 2, "I": 4, "Q": 8, "q": 8}
_NO_MEMORY, OUTSIDE, _UNUSUAL = -1, -2, -3


class UnusualError(Exception):
    """Something that is left to the import with numpy."""


_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.calloc.restype = ctypes.c_void_p, ctypes.c_void_p


class _Memory:
    """Of the C library: what one column gave back the next one takes, while it is still in the cache."""

    def __init__(self, size: int, *, zeros: bool) -> None:
        self.at = _libc.calloc(ctypes.c_size_t(size), 1) if zeros else _libc.malloc(ctypes.c_size_t(size))
        if not self.at:
            raise MemoryError

    def __del__(self) -> None:
        if self.at:
            _libc.free(ctypes.c_void_p(self.at))


class Column:
    """What it holds at first is anything, unless zeros are asked for: whoever makes one has it filled."""

    def __init__(self, form: Form, count: int, *, zeros: bool = False) -> None:
        self.form, self.width = form, _WIDTHS[form]
        size = max(1, count) * self.width
        self._memory = _Memory(size, zeros=zeros)
        self.at = self._memory.at
        self.view = memoryview((ctypes.c_char * size).from_address(self.at)).cast("B")[: count * self.width].cast(form)

    @classmethod
    def of(cls, form: Form, values: Sequence[int]) -> "Column":
        made = cls(form, len(values))
        made.view[:] = array(form, values)
        return made

    def __len__(self) -> int:
        return len(self.view)

    def part(self, first: int, end: int) -> "Column":
        """The same memory."""
        made = copy(self)
        made.at, made.view = self.at + first * self.width, self.view[first:end]
        return made

    def first(self, count: int) -> "Column":
        return self.part(0, count)

    def fill(self, value: int) -> None:
        self.view[:] = array(self.form, [value]) * len(self.view)


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("at", ctypes.c_void_p),
        ("owner", ctypes.py_object),
        ("length", ctypes.c_ssize_t),
        ("rest", ctypes.c_byte * 64),
    )


class Lent:
    """Where the bytes of somebody else lie, read only ones too; they stay as long as this does."""

    def __init__(self, content: "bytes | bytearray | memoryview | array[int]") -> None:
        self._buffer = _Buffer()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(content), ctypes.byref(self._buffer), 0)
        self.at, self.length = self._buffer.at or 0, len(content)

    def __del__(self) -> None:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(self._buffer))


class Library:
    """The functions of the scanner by name. Numbers are 64 bits wide, columns are lent."""

    def __init__(self, path: str | os.PathLike[str] = BUILT) -> None:
        self._library = ctypes.CDLL(os.fspath(path))
        if self._library.zs_version() != VERSION:
            raise OSError("it is of another version")

    def call(self, name: str, *given: Any) -> int:
        return self.checked(self.answer(name, *given))

    @staticmethod
    def checked(answer: int) -> int:
        """Raises where it is below zero."""
        if answer == _NO_MEMORY:
            raise MemoryError
        if answer == _UNUSUAL:
            raise UnusualError
        if answer < 0:
            raise BrokenCapture("a place lies outside of the file", "record it again")
        return answer

    def answer(self, name: str, *given: Any) -> int:
        function = getattr(self._library, name)
        function.restype = ctypes.c_int64
        return int(function(*(_passed(one) for one in given)))


def _passed(one: Any) -> Any:
    if isinstance(one, int):
        return ctypes.c_int64(one)
    return one if one is None else ctypes.c_void_p(one.at)


def library(path: str | os.PathLike[str] = BUILT) -> Library | None:
    try:
        return Library(path)
    except (OSError, AttributeError):
        return None


def layout_words(layout: Layout) -> "array[int]":
    """In the order of the struct in scanner.c."""
    fields = [layout.at.get(bit, -1) for bit in (data_file.IP, data_file.TID, data_file.TIME, data_file.CPU)]
    chain, after = (-1 if word is None else word for word in (layout.chain, layout.cgroup_after_chain))
    return array("q", [layout.least_words, *fields, chain, *(layout.read_group or (0, 0)), after])
