# SPDX-License-Identifier: Apache-2.0
"""`zombiescope profile` from the command line: store, ask, write; and how it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.profiler.perf_files import KALLSYMS, small_capture

from zombiescope.cli.main import main


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """perf.data, and the same stored with its own kernel's symbols."""
    (tmp_path / "perf.data").write_bytes(small_capture().file())
    (tmp_path / "kallsyms").write_bytes(KALLSYMS)
    assert run(tmp_path, "import", str(tmp_path / "perf.data"), "--kallsyms", str(tmp_path / "kallsyms")) == 0
    return tmp_path


def run(place: Path, *words: str) -> int:
    return main(["profile", *words, "--captures", str(place / "store")])


def test_import_list_and_ask(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(place, "import", str(place / "perf.data"), "--kallsyms", str(place / "kallsyms"), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "zombiescope.capture/1"
    assert document["capture"]["samples"] == 400
    assert run(place, "list") == 0
    assert "perf.data" in capsys.readouterr().out
    assert run(place, "flame", "--json", "--core", "1") == 0
    flame = json.loads(capsys.readouterr().out)
    assert flame["samples"] == 200
    assert run(place, "heatmap", "perf.data", "--json") == 0
    heat = json.loads(capsys.readouterr().out)
    assert sum(sum(map(sum, core["counts"])) for core in heat["cores"]) in (200, 201)
    assert run(place, "find", "--json") == 0
    moments = json.loads(capsys.readouterr().out)
    assert [moment["core"] for moment in moments["moments"]] == [1]


def test_kernel_alone_and_user_code_alone_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(place, "flame", "--kernel", "--user") == 2
    assert "no sample is both" in capsys.readouterr().err
    capsys.readouterr()
    assert run(place, "flame", "--kernel", "--json") == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 101


def test_pictures_are_written(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = str(place / "perf.data")
    capsys.readouterr()
    assert run(place, "heatmap", raw, "--svg", str(place / "h.svg"), "--png", str(place / "h.png")) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[:-1]] == [
        str(place / "h.svg"),
        str(place / "h.png"),
    ]
    assert run(place, "flame", raw, "--svg", str(place / "f.svg")) == 0
    assert run(place, "diff", f"{raw}@0..1", f"{raw}@1..", "--svg", str(place / "d.svg")) == 0
    assert (place / "h.png").read_bytes().startswith(b"\x89PNG")
    for name in ("h.svg", "f.svg", "d.svg"):
        text = (place / name).read_text()
        assert text.startswith("<svg") and text.endswith("</svg>\n")
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "<script" not in text
    for name, legend in (("f.svg", ("kernel", "user code", "thread")), ("d.svg", ("larger share than before",))):
        text = (place / name).read_text()
        assert all(f">{words}<" in text for words in legend)
    assert ">100 %<" in (place / "f.svg").read_text()
    capsys.readouterr()


def test_the_heat_map_opens_on_kernel_time(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*words: str) -> tuple[str, int]:
        capsys.readouterr()
        assert run(place, "heatmap", *words) == 0
        first, *rest = capsys.readouterr().out.splitlines()
        samples = [re.match(r"core \d+: ([\d,]+) samples", line) for line in rest]
        return first, sum(int(found[1].replace(",", "")) for found in samples if found)

    assert run(place, "import", str(place / "perf.data"), "--kallsyms", str(place / "kallsyms")) == 0
    kernel, user, both = told(), told("--user"), told("--all")
    assert "time in the kernel" in kernel[0]
    assert "user code" in user[0]
    assert "kernel and in user code" in both[0]
    assert kernel[1] + user[1] == both[1]
    assert 0 < kernel[1] < both[1]


def test_text_for_a_person(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("heatmap",), ("flame",), ("find", "perf.data"), ("diff", "latest@..1", "latest@1..")):
        assert run(place, *words) == 0
    out = capsys.readouterr().out
    assert "core 1, 1.0 s to 2.0 s: 100 % in the kernel" in out
    assert "vfs_read" in out


@pytest.mark.parametrize("form", ["collapsed", "pprof", "speedscope", "firefox", "otlp"])
def test_export_and_import_again(place: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = place / f"out.{form}"
    assert run(place, "export", str(place / "perf.data"), "--form", form, "--output", str(out)) == 0
    assert out.stat().st_size > 100
    if form in ("collapsed", "pprof", "speedscope"):
        assert run(place, "import", str(out)) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("flame", "nothing-here"), 2, "there is no capture"),
        (("import", "/nonexistent/perf.data"), 3, "no such file"),
        (("flame", "/dev/null"), 2, "regular file"),
        (("heatmap", "DATA", "--from", "5", "--to", "2"), 2, "ends before"),
        (("heatmap", "DATA", "--core", "7"), 2, "the capture has no sample of it"),
        (("export", "DATA", "--form", "pprof", "--pid", "4242"), 3, "no sample"),
        (("flame", "DATA", "--svg", "/nonexistent/x.svg"), 3, "cannot write"),
        (("import", "DATA", "--name", "../x"), 2, "regular file name"),
    ],
)
def test_refusals_say_what_and_why(
    place: Path, words: tuple[str, ...], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(place, *(str(place / "perf.data") if word == "DATA" else word for word in words)) == code
    assert said in capsys.readouterr().err
