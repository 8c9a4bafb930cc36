# SPDX-License-Identifier: Apache-2.0
"""The build of the one file without a compiler: steps kept by content, downloads by hash, the tail that is packed, the bill."""

from __future__ import annotations

import hashlib
import io
import json
import marshal
import re
import struct
import tarfile
from pathlib import Path

import pytest
from tools.onefile import fetch
from tools.onefile.bill import Component, bill_of_materials
from tools.onefile.interpreter import LEFT_OUT
from tools.onefile.pack import BOOT, MAGIC, Tail
from tools.onefile.pins import COMPILER, SOURCES, WHEELS, Source
from tools.onefile.steps import HERE, BuildError, Cache
from tools.onefile.take_patches import fixes

ROOT = HERE.parents[1]
TRAILER = struct.Struct("<QQQQ8s")


def source(content: bytes, name: str = "thing") -> Source:
    return Source(name, "1", "t/thing", "thing_1.orig.tar.gz", hashlib.sha256(content).hexdigest(), "MIT", "LICENSE")


def archive(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def test_everything_is_pinned_by_hash() -> None:
    hashes = [source.sha256 for source in SOURCES] + [one for wheel in (*WHEELS, COMPILER) for one in wheel.hashes]
    assert all(re.fullmatch(r"[0-9a-f]{64}", one) for one in hashes)
    assert len(set(hashes)) == len(hashes)


def test_the_libraries_are_those_that_are_tested() -> None:
    tested = dict(
        re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "requirements-dev.txt").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert {wheel.name: wheel.version for wheel in WHEELS}.items() <= {
        name.lower(): version for name, version in tested.items()
    }.items()


def test_every_patch_belongs_to_a_source() -> None:
    assert {path.stem for path in (HERE / "patches").glob("*.patch")} <= {source.name for source in SOURCES}


def test_no_module_that_we_import_is_left_out() -> None:
    imported = {
        found
        for path in (ROOT / "src" / "zombiescope").rglob("*.py")
        for found in re.findall(r"^\s*(?:import|from) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    wrapped = {"ssl": "_ssl", "curses": "_curses", "asyncio": "_asyncio", "multiprocessing": "_multiprocessing"}
    optional = {"ssl"}  # `fleet` asks over https with it, and says that this build has no TLS
    assert not {wrapped.get(name, name) for name in imported - optional} & set(LEFT_OUT)


def test_a_step_is_made_once_and_again_when_its_inputs_change(tmp_path: Path) -> None:
    cache, made = Cache(tmp_path), list[str]()

    def make(folder: Path) -> None:
        made.append("once")
        (folder / "out").write_text("made")

    first = cache.step("thing", [], ["a"], make)
    assert cache.step("thing", [], ["a"], make) == first
    assert len(made) == 1
    assert (first.folder / "out").read_text() == "made"
    assert cache.step("thing", [], ["b"], make).key != first.key
    assert cache.step("thing", ["pins.py"], ["a"], make).key != first.key
    assert len(made) == 3


def test_a_step_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "half").write_text("made")
        raise BuildError("no compiler")

    with pytest.raises(BuildError):
        Cache(tmp_path).step("thing", [], [], make)
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_used_for_a_month_goes(tmp_path: Path) -> None:
    import os  # noqa: PLC0415 (one test)

    cache = Cache(tmp_path)
    kept = cache.step("thing", [], ["new"], lambda folder: None).folder
    old = cache.step("thing", [], ["old"], lambda folder: None).folder
    (tmp_path / "downloads").mkdir()
    for path in (old, tmp_path / "downloads"):
        os.utime(path, (0, 0))
    cache.forget_unused()
    assert {path.name for path in tmp_path.iterdir()} == {kept.name, "downloads"}


def test_a_download_with_another_hash_is_refused(tmp_path: Path) -> None:
    content = archive({"thing-1/LICENSE": "yours"})
    mirror = tmp_path / "mirror"
    (mirror / "pool/main/t/thing").mkdir(parents=True)
    (mirror / "pool/main/t/thing/thing_1.orig.tar.gz").write_bytes(content + b"more")
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(BuildError, match="another hash than the pinned one"):
        fetch.unpack_source(source(content), [mirror.as_uri()], tmp_path / "downloads", into)
    assert list(into.iterdir()) == []
    assert [path for path in (tmp_path / "downloads").iterdir() if not path.name.startswith(".")] == []


def test_a_source_is_found_on_the_next_mirror_and_then_kept(tmp_path: Path) -> None:
    content = archive({"thing-1/LICENSE": "yours"})
    mirror = tmp_path / "mirror"
    (mirror / "pool/main/t/thing").mkdir(parents=True)
    (mirror / "pool/main/t/thing/thing_1.orig.tar.gz").write_bytes(content)
    into = tmp_path / "into"
    into.mkdir()
    mirrors = [(tmp_path / "empty").as_uri(), mirror.as_uri()]
    fetch.unpack_source(source(content), mirrors, tmp_path / "downloads", into)
    assert (into / "LICENSE").read_text() == "yours"
    fetch.unpack_source(source(content), [(tmp_path / "empty").as_uri()], tmp_path / "downloads", into)


def test_only_fixes_of_what_is_built_are_taken(tmp_path: Path) -> None:
    patch = (
        "Subject: a fix\n--- a/Lib/test/test_x.py\n+++ b/Lib/test/test_x.py\n@@ -1 +1 @@\n-a\n+b\n"
        "--- a/Lib/x.py\n+++ b/Lib/x.py\n@@ -1,2 +1,2 @@ def f():\n x\n-a\n+b\n-- \n2.40\n"
    )
    debian = tmp_path / "python3.13_1.debian.tar.xz"
    with tarfile.open(debian, "w:xz") as tar:
        for name, text in (
            ("series", "layout.diff\nCVE-2026-1.patch\n"),
            ("CVE-2026-1.patch", patch),
            ("layout.diff", ""),
        ):
            member = tarfile.TarInfo(f"debian/patches/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    (taken,) = fixes(debian)
    assert taken == "# CVE-2026-1.patch\n--- a/Lib/x.py\n+++ b/Lib/x.py\n@@ -1,2 +1,2 @@\n x\n-a\n+b\n"


def test_a_tail_can_be_read_back() -> None:
    tail = Tail(b"\x7fELF the interpreter")
    for name in BOOT:
        tail.add_module(f"{name.replace('.', '/')}.py", b"value = 1\n", name)
    tail.add_module("zombiescope/__init__.py", b"value = 2\n")
    tail.add_file("zombiescope/data/text", b"many words " * 100)
    tail.add_file("zombiescope/data/few", b"few")
    content = tail.finished()
    boot, boots, index, size, magic = TRAILER.unpack(content[-TRAILER.size :])
    assert (magic, boots) == (MAGIC, len(BOOT))
    assert content[boot : boot + 9] == b"encodings"
    modules, files = marshal.loads(content[index : index + size])
    begin, length, shown, is_package = modules["zombiescope"]
    assert (shown, is_package) == ("zombiescope/__init__.py", True)
    names: dict[str, object] = {}
    exec(marshal.loads(content[begin : begin + length]), names)
    assert names["value"] == 2
    assert [packed for _, _, packed in (files["zombiescope/data/text"], files["zombiescope/data/few"])] == [True, False]


def test_a_bill_says_the_same_for_the_same_file() -> None:
    own = Component("zombiescope", "0.1.0", "Apache-2.0", "text", "pkg:pypi/zombiescope@0.1.0")
    part = Component("zlib", "1.3.1", "Zlib", "text", "pkg:deb/debian/zlib@1.3.1?arch=source", "ab" * 32)
    bill = bill_of_materials(own, "x86_64", "cd" * 32, [part])
    assert bill == bill_of_materials(own, "x86_64", "cd" * 32, [part])
    assert bill["specVersion"] == "1.6"
    assert bill["components"][0]["purl"].startswith("pkg:deb/debian/zlib@")
    assert bill["serialNumber"] != bill_of_materials(own, "x86_64", "ef" * 32, [part])["serialNumber"]
    assert "time" not in json.dumps(bill)
