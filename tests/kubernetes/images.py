# SPDX-License-Identifier: Apache-2.0
"""The images of the test cluster, all made here: the sandbox of pods, and one program that crashes, works or heals."""

from __future__ import annotations

from pathlib import Path

from tests.kubernetes.settings import PAUSE
from tools.image.oci import Entry, Layout
from tools.onefile.steps import Cache, run
from tools.onefile.toolchain import make_compiler

WORKLOAD = "docker.io/local/workload:1"


def workload_images(folder: Path) -> list[Path]:
    folder.mkdir(parents=True)
    program = folder / "workload"
    cache = Cache()
    zig = make_compiler(cache).folder / "ziglang/zig"
    kept = {
        "ZIG_GLOBAL_CACHE_DIR": str(cache.folder / "zig-cache"),
        "ZIG_LOCAL_CACHE_DIR": str(cache.folder / "zig-cache"),
    }
    source = Path(__file__).with_name("workload.c")
    words: list[str | Path] = [
        zig,
        "cc",
        "-target",
        "x86_64-linux-musl",
        "-static",
        "-Os",
        "-Wall",
        "-Werror",
        "-o",
        program,
        source,
    ]
    run(words, folder, kept)
    return [_image(folder / f"{at}.tar", name, program) for at, name in enumerate((PAUSE, WORKLOAD))]


def _image(target: Path, name: str, program: Path) -> Path:
    layout = Layout()
    files = [Entry("workload", program.read_bytes(), 0o755)]
    layout.list_as(layout.image(files, {"Entrypoint": ["/workload"], "Cmd": ["pause"]}, "amd64", {}), name)
    layout.write(target)
    return target
