# SPDX-License-Identifier: Apache-2.0
"""Every reader of strangers' files: whole files to begin with, how they are mutated, and the command that reads one."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.profiler.perf_files import KALLSYMS, TOOLS, PerfFileBuilder, record, small_capture
from tests.unit.execution.machine import FileMachine
from tests.unit.execution.machine import build as build_machine
from tests.unit.trees import plant
from tests.unit.zstd_frames import zstd_packed
from tools.fuzzing.mutations import Change, anywhere, either, packed, stored_capture, tar_headers, values, with_crc

from zombiescope.execution.journal import ActionFolder, Journal, read_entries
from zombiescope.execution.moves import Hands
from zombiescope.execution.undo import describe, pending, undo_all
from zombiescope.facts.history import Happening, Sample
from zombiescope.history.chunks import Chunks
from zombiescope.history.log import encode as encode_line
from zombiescope.lab import truth as lab_truth
from zombiescope.profiler.formats.capture_file import encode
from zombiescope.profiler.formats.json_forms import write_firefox, write_speedscope
from zombiescope.profiler.formats.protobuf import write_pprof
from zombiescope.profiler.formats.sending import write_otlp
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.stacks.capture import Selection

MACHINES = Path(__file__).resolve().parents[2] / "tests/machines"
UNIT = b"[Unit]\nAfter=a.socket\n[Service]\nExecStart=/bin/a\nRestart=always\nRestartSec=0\n[Install]\nWantedBy=multi-user.target\n"
Words = Callable[[Path, int], list[str]]


class Reader(NamedTuple):
    seeds: list[bytes]
    change: Change
    file: str
    """Where a mutated file is laid, in a folder of its own."""
    words: Words | None
    """The command that reads it; the number is that of the mutation."""
    look: Callable[[Path], None] = lambda _folder: None
    """Instead of a command."""


def all_readers() -> Iterator[tuple[str, Reader]]:
    yield from _images()
    yield from _recordings()
    yield from _captures()
    yield from _state()


def _tarred(members: Mapping[str, bytes | str], form: int = tarfile.GNU_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
            else:
                info.type, info.linkname = tarfile.SYMTYPE, content
            archive.addfile(info, io.BytesIO(content if isinstance(content, bytes) else b""))
    return out.getvalue()


def _images() -> Iterator[tuple[str, Reader]]:
    plain: dict[str, bytes | str] = {
        "usr/lib/systemd/system/a.service": UNIT,
        "etc/systemd/system/multi-user.target.wants/a.service": "/usr/lib/systemd/system/a.service",
        "etc/cron.d/x": b"* * * * * root /bin/x\n",
        "etc/os-release": b"ID=debian\n",
    }
    long = {"usr/lib/systemd/system/" + "l" * 150 + ".service": UNIT, **plain}

    def words(folder: Path, number: int) -> list[str]:
        del number
        return ["audit", "--image", f"{folder}/image", "--json"]

    def reader(seeds: list[bytes], change: Change) -> Reader:
        return Reader(seeds, change, "image", words)

    headers = either(anywhere, tar_headers, tar_headers)
    yield "image: tar", reader([_tarred(plain), _tarred(long)], headers)
    yield "image: pax", reader([_tarred(long, tarfile.PAX_FORMAT)], either(headers, values))
    layer = _tarred(plain)
    docker = _tarred({"manifest.json": b'[{"Config":"c","Layers":["0/layer.tar"]}]', "0/layer.tar": layer})
    yield "image: docker", reader([docker], either(headers, values))
    digest = "0123456789abcdef" * 4
    manifest = json.dumps({"layers": [{"digest": f"sha256:{digest}"}]}).encode()
    index = json.dumps({"manifests": [{"digest": "sha256:" + "f" * 64, "platform": {"os": "linux"}}]}).encode()
    oci = {
        "oci-layout": b"{}",
        "index.json": index,
        f"blobs/sha256/{digest}": layer,
        f"blobs/sha256/{'f' * 64}": manifest,
    }
    yield "image: oci", reader([_tarred(oci)], either(headers, values))
    for form in ("gzip", "bzip2", "xz", "zstd"):
        yield f"image: {form}", reader([_tarred(plain)], packed(headers, form))
    yield "image: ext4", reader([_ext4(plain)], anywhere)


def _ext4(members: Mapping[str, bytes | str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in members.items():
            place = Path(folder, "tree", name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content) if isinstance(content, bytes) else place.symlink_to(content)
        image, environment = Path(folder, "image"), {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        order = ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", f"{folder}/tree", str(image), "256k"]
        subprocess.run(order, check=True, env=environment, capture_output=True)
        return image.read_bytes()


def _recordings() -> Iterator[tuple[str, Reader]]:
    machines = [(MACHINES / name / "recording.jsonl").read_bytes() for name in ("5.10-v1", "6.1-v2-mini")]

    def words(folder: Path, number: int) -> list[str]:
        return [("scan", "check", "autopsy")[number % 3], "--root", f"{folder}/recording", "--json"]

    def unpacked(folder: Path, number: int) -> list[str]:
        return [("scan", "doctor", "check")[number % 3], "--root", str(folder), "--json"]

    tars = [_tarred({"recording.jsonl": machine}, tarfile.PAX_FORMAT) for machine in machines]
    yield "recording", Reader(machines, either(values, values, anywhere), "recording.jsonl", unpacked)
    yield "recording: file", Reader(tars, packed(either(anywhere, tar_headers, values), "gzip"), "recording", words)


def _captures() -> Iterator[tuple[str, Reader]]:
    built, few = small_capture(), PerfFileBuilder(records=small_capture().records[:60])
    several = small_capture()
    several.ids = ((7,), (8, 9))
    several.lost(1, 3).ksymbol(2, 0xFFFFFFFFC0000000, 64, b"bpf_prog_x").fork(3, 11, 10).comm(4, 11, b"x", is_exec=True)
    several.records = several.records[:60] + several.records[-4:]
    squeezed = PerfFileBuilder(records=[*built.records[:2], record(81, 0, zstd_packed(b"".join(built.records[2:40])))])
    capture, everything = import_perf(few.file(), TOOLS, "fuzz"), Selection()

    def words(folder: Path, number: int) -> list[str]:
        engine = ["--no-scanner"] if number % 2 else []
        order = ["profile", "import", f"{folder}/capture", "--output", f"{folder}/out", "--name", "x", "--json"]
        return [*order, "--kallsyms", f"{folder.parent}/kallsyms", *engine]

    def questions(folder: Path, number: int) -> list[str]:
        question = ("flame", "heatmap", "find", "list")[number % 4]
        named = [f"{folder}/capture.zscap"] if question != "list" else []
        return ["profile", question, *named, "--captures", str(folder), "--json"]

    def reader(seeds: list[bytes], change: Change) -> Reader:
        return Reader(seeds, change, "capture", words)

    yield "capture: perf.data", reader([few.file(), several.file(), squeezed.file()], anywhere)
    yield "capture: perf pipe", reader([few.pipe(), squeezed.pipe()], anywhere)
    script = b"reader 10/10 [001] 5.000001: 1 cycles:\n\tffffffff81000210 vfs_read+0x10 ([kernel.kallsyms])\n"
    script += b"\t 400200 x (/bin/x)\n\n"
    yield "capture: perf script", reader([script * 20], either(anywhere, values))
    mangled = b"a;_ZNSt6vectorISt4pairIidESaIS1_EE12emplace_backIJRiEEEvDpOT_;_ZZN4Room4turnEmENKUlvE_clEv 3\n"
    mangled += b"a;_RINvNtCs1234_3std3mem8align_ofdE;_ZN4core3fmt9Formatter3pad17h0123456789abcdefE 2\n"
    yield "capture: collapsed", reader([b"a;b;c_[k] 10\nb;c 3\n" * 20, mangled * 5], either(anywhere, values))
    pprof = b"".join(write_pprof(capture, everything))
    import gzip  # noqa: PLC0415 (here alone)

    yield "capture: pprof", reader([gzip.decompress(pprof)], either(anywhere, packed(anywhere, "gzip")))
    yield "capture: speedscope", reader([b"".join(write_speedscope(capture, everything))], either(anywhere, values))
    yield "capture: firefox", reader([b"".join(write_firefox(capture, everything))], either(anywhere, values))
    yield "capture: otlp", reader([b"".join(write_otlp(capture, everything))], anywhere)
    stored = b"".join(encode(capture))
    yield (
        "capture: stored",
        Reader([stored], either(stored_capture, stored_capture, anywhere), "capture.zscap", questions),
    )


def _state() -> Iterator[tuple[str, Reader]]:
    samples = [Sample(number, 1e9 + number * 10, "boot", {"a": number, "b": number / 3}) for number in range(1, 60)]
    happenings = [Happening(100 + number, 1e9 + number, "boot", "what", "detail") for number in range(5)]
    log = b"".join([*map(encode_line, samples), *map(encode_line, happenings)])
    with tempfile.TemporaryDirectory() as folder:
        chunks = Chunks(f"{folder}/history.db")
        chunks.fold(samples, happenings, 200)
        chunks.close()
        database = Path(folder, "history.db").read_bytes()

    def words(folder: Path, number: int) -> list[str]:
        del number
        return ["history", "--state", str(folder), "--last", "all", "--json"]

    from zombiescope.history.store import DATABASE, LOG  # noqa: PLC0415 (here alone)

    yield "state: log", Reader([log], either(with_crc, with_crc, anywhere), LOG, words)
    yield "state: database", Reader([database], anywhere, DATABASE, words)
    journal = Reader([_applied()], either(values, values, anywhere), "actions/1/journal.jsonl", None, _actions)
    yield "journal: apply", journal
    made = [{"intent": "process", "role": "command", "pid": 1, "start": 2}, {"intent": "cgroup", "path": "/x"}]
    lab = b"".join(json.dumps(entry).encode() + b"\n" for entry in made) * 3
    yield "journal: lab", Reader([lab], either(values, values, anywhere), "run/journal.jsonl", None, _lab_run)


def _applied() -> bytes:
    """As an apply of every primitive leaves it, the last of them announced and not done."""
    placed = {"kind": "file", "mode": 420, "uid": 0, "gid": 0, "mtime_ns": 1, "xattrs": {"user.x": "eA=="}}
    absent, aside = {"kind": "absent"}, ".zombiescope-0011"
    writes: list[dict[str, object]] = [
        {"do": "place_link", "path": "/etc/systemd/system/a.service", "before": absent, "target": "L2Rldi9udWxs"},
        {"do": "remove_link", "path": "/etc/x", "before": {"kind": "link", "content": "L2Rldi9udWxs", "mtime_ns": 5}},
        {"do": "place_file", "path": "/etc/f", "before": {**placed, "content": "eA=="}, "content": "eQ=="},
        {"do": "make_folder", "path": "/etc/d", "before": absent},
        {"do": "set_file", "path": "/sys/knob", "before": "YmVmb3Jl", "value": "MQ=="},
        {"do": "set_file_for_a_moment", "path": "/sys/knob", "before": "max", "value": "0"},
        {"do": "stop_unit", "unit": "a.service", "before": "active"},
        {"do": "swap_in", "device": "/swap", "priority": -2},
        {"do": "flush", "parent": "/sys", "path": "/sys/zombiescope-nudge"},
        {"do": "rewrite_files", "files": ["/var/log/x"], "inodes": [[1, 2]], "aside": f"/var/log/{aside}"},
        {"do": "delete_files", "files": ["/dev/shm/5"], "kept": {"/dev/shm/5": "/k"}, "aside": f"/dev/shm/{aside}"},
        {"do": "remove_segments", "segments": [1]},
        {"do": "drop_files", "files": ["/var/log/x"]},
    ]
    entries: list[dict[str, object]] = [{"entry": "begin", "plan": "x", "root": "/r"}, {"entry": "step", "name": "x"}]
    entries += [{"entry": "write", "seq": number, "step": 1, **write} for number, write in enumerate(writes, 1)]
    entries += [{"entry": "done", "seq": 1, "after": placed}, {"entry": "done", "seq": 5, "after": "MQ=="}]
    entries += [{"entry": "undone", "seq": 4}, {"entry": "step-end", "name": "x", "status": "done"}]
    return b"".join(json.dumps({"v": 1, "at": 1.0, **entry}).encode() + b"\n" for entry in entries)


def _actions(folder: Path) -> None:
    """As the circuit breaker and `undo` read it, over a machine made of files."""
    actions = ActionFolder(str(folder))
    list(actions.steps_done_since(0.0))
    for name in actions.names():
        where = actions.folder(name)
        for entry in pending(read_entries(where)):
            describe(entry)
        writer = FileMachine(os.fsencode(build_machine(folder / "root")))
        for place in ("dev/shm", "var/log"):
            plant(folder / "root" / place / ".zombiescope-0011", {"0": "", "7": ""})
            (folder / "root" / place / ".zombiescope-0011").chmod(0o700)
        undo_all(Hands(writer, Journal(where, lambda: 1.0)), has_systemd=True)


def _lab_run(folder: Path) -> None:
    setattr(lab_truth, "STATE_ROOTS", (str(folder),))  # noqa: B010 (its folders are the system's)
    for entry in lab_truth.entries("run"):
        entry.get("pid")


def prepare(folder: Path) -> None:
    (folder / "kallsyms").write_bytes(KALLSYMS)


def dice_of(name: str, seed: int, number: int) -> random.Random:
    """Each mutation by itself, so that one alone can be made again."""
    return random.Random(f"{name} {seed} {number}")
