# SPDX-License-Identifier: Apache-2.0
"""The one file as a file: what it listens to, what it says when it is damaged, and that it is what its bill of materials tells."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tools.onefile.pins import SOURCES, WHEELS
from tools.onefile.steps import Cache

from zombiescope import __version__


def run(
    *command: str | Path, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        timeout=120,
    )


def test_it_is_this_version(one_file: Path) -> None:
    assert run(one_file, "--version").stdout == f"zombiescope, version {__version__}\n"


def test_neither_variables_nor_the_folder_decide_what_is_imported(one_file: Path, tmp_path: Path) -> None:
    for name in ("zombiescope", "json", "click", "sitecustomize", "usercustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from the folder')\n")
    seduced = {
        "PYTHONPATH": str(tmp_path),
        "PYTHONHOME": str(tmp_path),
        "PYTHONSTARTUP": str(tmp_path / "json.py"),
        "PYTHONINSPECT": "1",
        "ZOMBIESCOPE_TEST_PROGRAM": "raise SystemExit('a test switch')",
    }
    done = run(one_file, "licenses", "--json", folder=tmp_path, environment=seduced)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "zombiescope.licenses/1"


def test_it_is_also_started_as_a_module(one_file: Path) -> None:
    """Our own code starts `sys.executable -P -m zombiescope`."""
    for words in (("-m", "zombiescope"), ("-P", "-m", "zombiescope")):
        assert run(one_file, *words, "--version").stdout.startswith("zombiescope, version ")
    assert run(one_file, "-c", "print(1)").returncode == 2, "it is no Python"


def broken_pieces(content: bytes) -> dict[str, bytes]:
    damaged = bytearray(content)
    damaged[-40:-32] = (1 << 63).to_bytes(8, "little")
    return {"cut": content[: len(content) // 2], "stripped": content[:-1000], "lying": bytes(damaged)}


@pytest.mark.parametrize("how", ["cut", "stripped", "lying"])
def test_a_damaged_file_says_so(one_file: Path, tmp_path: Path, how: str) -> None:
    broken = tmp_path / "zombiescope"
    broken.write_bytes(broken_pieces(one_file.read_bytes())[how])
    broken.chmod(0o755)
    done = run(broken, "--version")
    assert done.returncode == 70, done
    assert "does not hold its program" in done.stderr
    assert "try: copy it again" in done.stderr


def test_strip_is_seen(one_file: Path, tmp_path: Path) -> None:
    if not shutil.which("strip"):
        pytest.skip("binutils is not installed")
    broken = tmp_path / "zombiescope"
    shutil.copy(one_file, broken)
    subprocess.run(["strip", broken], check=True)
    assert run(broken, "--version").returncode == 70


def test_what_is_left_out_is_said(one_file: Path) -> None:
    for words in (("heatmap",), ("flame",), ("diff", "a", "b"), ("find",), ("list",), ("import", "x"), ("serve",)):
        done = run(one_file, "profile", *words)
        assert done.returncode == 2, words
        assert "not in the one-file build" in done.stderr
        assert "pip install 'zombiescope[profile]'" in done.stderr


def test_what_it_records_a_full_install_imports(one_file: Path, tmp_path: Path) -> None:
    done = run(one_file, "profile", "record", "--with", "own", "--seconds", "2", "--captures", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    segment = tmp_path / told["captures"][0]["name"]
    symbols = ["--kallsyms", told["kallsyms"]] if told["kallsyms"] else []
    full = Path(sys.executable).with_name("zombiescope")
    stored = run(full, "profile", "import", segment, *symbols, "--output", tmp_path / "read", "--json")
    assert stored.returncode == 0, stored.stderr
    assert json.loads(stored.stdout)["capture"]["samples"] > 0


def test_no_path_of_the_machine_that_built_it_is_inside(one_file: Path) -> None:
    content = one_file.read_bytes()
    for path in (str(Cache().folder), str(Path.home() / ".cache"), str(Path(__file__).resolve().parents[2])):
        assert path.encode() not in content


def test_it_links_nothing(one_file: Path) -> None:
    """No program interpreter and no dynamic section: type, and the kinds of its program headers."""
    content = one_file.read_bytes()
    assert content[:4] == b"\x7fELF"
    first, size, count = int.from_bytes(content[32:40], "little"), int.from_bytes(content[54:56], "little"), content[56]
    kinds = {int.from_bytes(content[first + size * at :][:4], "little") for at in range(count)}
    assert not kinds & {2, 3}, "PT_DYNAMIC, PT_INTERP"


def test_the_bill_is_that_of_this_file(one_file: Path) -> None:
    bill = json.loads(one_file.with_name(one_file.name + ".cdx.json").read_text())
    told = bill["metadata"]["component"]
    assert told["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(one_file.read_bytes()).hexdigest()}]
    listed = {part["name"]: part["version"] for part in bill["components"]}
    assert {wheel.name: wheel.version for wheel in WHEELS}.items() <= listed.items()
    assert {source.version for source in SOURCES} <= set(listed.values())
    inside = json.loads(run(one_file, "licenses", "--json").stdout)["components"]
    assert {part["name"] for part in inside} == {*listed, "zombiescope"}
    assert all(part["has_text"] for part in inside)


def test_limits_on_addresses_hold(one_file: Path) -> None:
    """Strangers' files are read under a limit on addresses: an allocator that reserves many would leave it without a meaning."""
    process = subprocess.Popen([one_file, "top", "--plain"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        facts = Path(f"/proc/{process.pid}/status").read_text()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    peak = next(int(line.split()[1]) for line in facts.splitlines() if line.startswith("VmPeak:"))
    assert peak < 192 << 10, f"{peak >> 10} MiB"
