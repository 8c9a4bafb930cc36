# SPDX-License-Identifier: Apache-2.0
"""The one-file build loads no libraries: every name that the package takes through ctypes is linked into it, and listed there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.onefile.ctypes_names import Taken, all_taken, linked_names, taken_names

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "zombiescope"
TAKEN = all_taken(PACKAGE)
NOT_IN_THE_ONE_FILE = {
    "zombiescope/profiler/files/scanner.py": "the scanner in C, which is built beside an installation",
    "zombiescope/profiler/files/columns.py": "columns for that scanner",
    "zombiescope/profiler/files/reading.py": "reads captures, which needs numpy; lives without mallopt",
}


IN_A_CLASS = """
class A:
    def a(self):
        self.z = ctypes.CDLL("libzstd.so.1")
    def b(self):
        self.z.forgotten()
"""


def file_of(taken: Taken) -> str:
    return taken.where.partition(":")[0]


def test_every_name_is_linked() -> None:
    linked = linked_names()
    missing = [
        taken
        for taken in TAKEN
        if (taken.library, taken.name) not in linked and file_of(taken) not in NOT_IN_THE_ONE_FILE
    ]
    assert missing == [], "add them to tools/onefile/core/dl_static.c"


def test_the_search_sees_every_file_that_opens_a_library() -> None:
    openers = {
        str(path.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*.py") if "CDLL(" in path.read_text("utf-8")
    }
    assert openers == {file_of(taken) for taken in TAKEN}
    assert set(NOT_IN_THE_ONE_FILE) <= openers, "an exception that nobody needs any more"


def test_nothing_is_linked_that_nobody_takes() -> None:
    assert linked_names() - {(taken.library, taken.name) for taken in TAKEN} == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("libc = ctypes.CDLL(None)\ndef f():\n    libc.forgotten(1)\n", ("None", "forgotten")),
        ("def f():\n    ctypes.CDLL(None, use_errno=True).forgotten(1)\n", ("None", "forgotten")),
        ("def f(libc: ctypes.CDLL):\n    libc.forgotten(1)\n", ("None", "forgotten")),
        ("a, libc = 1, ctypes.CDLL(None)\nx = libc['forgotten']\n", ("None", "forgotten")),
        ("libc: object = ctypes.CDLL(None)\nx = getattr(libc, 'forgotten')\n", ("None", "forgotten")),
        ("libc = ctypes.CDLL(None)\nx = getattr(libc, name)\n", ("None", "?")),
        (IN_A_CLASS, ("libzstd.so.1", "forgotten")),
        ("lib = ctypes.CDLL(find())\nlib.forgotten()\n", ("?", "forgotten")),
    ],
)
def test_a_forgotten_name_is_found(text: str, found: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(text)
    assert [(taken.library, taken.name) for taken in taken_names(file, "module.py")] == [found]


def test_the_same_name_in_another_function_is_another_thing(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "def f():\n    library = ctypes.CDLL(None)\n    library.malloc\ndef g(library):\n    library.open_shelf()\n"
    )
    assert [taken.name for taken in taken_names(file, "module.py")] == ["malloc"]
