# SPDX-License-Identifier: Apache-2.0
"""perf.data: what a sample means, and what a damaged file gives."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from tests.profiler.perf_files import KERNEL_MARK, TOOLS, USER_MARK, PerfFileBuilder, record, small_capture

from zombiescope.profiler.formats.capture_file import decode, encode
from zombiescope.profiler.perf.data_file import Event
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.perf.side_records import Mapped, read_side
from zombiescope.profiler.stacks.capture import BrokenCapture, Capture
from zombiescope.profiler.stacks.flame_graph import paths


def stacks(capture: Capture) -> list[list[str]]:
    return [[capture.frame_names[frame] for frame in path] for path in paths(capture, capture.node.astype(np.int64))]


def test_a_sample_is_its_thread_then_its_frames_outermost_first() -> None:
    capture = import_perf(small_capture().file(), TOOLS, "small")
    assert len(capture) == 400
    assert stacks(capture)[-1] == ["reader", "[unknown]", "do_syscall_64", "vfs_read"]
    assert capture.seconds == pytest.approx(1.99, abs=0.001)
    assert capture.about.rate_hz == 99


def test_idle_is_what_the_leaf_says() -> None:
    capture = import_perf(small_capture().file(), TOOLS, "small")
    on_core_0 = capture.cpu == 0
    assert int(np.count_nonzero(~capture.idle[on_core_0])) == 1
    assert not capture.idle[~on_core_0].any()


def test_a_pipe_says_the_same_as_a_file() -> None:
    built = small_capture()
    file, pipe = import_perf(built.file(), TOOLS, "same"), import_perf(built.pipe(), TOOLS, "same")
    assert np.array_equal(file.time, pipe.time)
    assert stacks(file) == stacks(pipe)


def test_exec_and_fork_change_names_and_maps_in_time_order() -> None:
    built = PerfFileBuilder().comm(0, 10, b"bash").mmap2(0, 10, 0x1000, 0x1000, 0, b"/bin/bash")
    built.fork(100, 20, 10).comm(200, 20, b"python", is_exec=True).mmap2(210, 20, 0x1000, 0x1000, 0, b"/bin/python")
    built.sample(300, 0, 20, [USER_MARK, 0x1010], mode=2).sample(150, 0, 20, [USER_MARK, 0x1010], mode=2)
    capture = import_perf(built.file(), TOOLS, "exec")
    found = [
        [(capture.frame_names[f], capture.frame_files[f]) for f in p]
        for p in paths(capture, capture.node.astype(np.int64))
    ]
    assert found == [
        [("bash", ""), ("[unknown]", "/bin/bash")],
        [("python", ""), ("[unknown]", "/bin/python")],
    ]


DEVICE, NVME = struct.pack("<IIQQ", 0xFE, 0, 0x3FB0B, 0), struct.pack("<IIQQ", 0x103, 1, 7, 9)
DISKS = [
    struct.pack("<IIQQ", *one) for one in ((8, 1, 0x3FB0B, 77), (8, 1, 0x3FB0B, 0), (7, 3, 12, 0), (9, 127, 1 << 33, 5))
]
IDENTITIES = [bytes(range(20)), bytes(range(16)), bytes(range(8)), bytes(reversed(range(8)))]
MARKED = [
    *((one, "") for one in (DEVICE, NVME, *DISKS)),
    *((struct.pack("<BBH20s", len(one), 0, 0, one), one.hex()) for one in IDENTITIES),
]


@pytest.mark.parametrize(("marked", "build_id"), MARKED)
def test_a_device_that_is_marked_as_a_build_id_is_none(marked: bytes, build_id: str) -> None:
    (raw,) = PerfFileBuilder().mmap2(0, 10, 0x1000, 0x1000, 0, b"/bin/x", marked=marked).records
    kind, misc, _ = struct.unpack_from("<IHH", raw)
    (mapped,) = read_side([(kind, misc, raw[8:])], Event(1, 0, 99, 0, 0, 0, None)).changes
    assert isinstance(mapped, Mapped)
    assert (mapped.path, mapped.build_id) == ("/bin/x", build_id)


def test_a_map_over_another_counts_from_its_time_on() -> None:
    built = PerfFileBuilder().comm(0, 10, b"x").mmap2(0, 10, 0x1000, 0x3000, 0, b"/lib/old")
    built.mmap2(500, 10, 0x2000, 0x1000, 0, b"/lib/new")
    for time, address in ((100, 0x2100), (600, 0x2100), (600, 0x3100), (600, 0x1100)):
        built.sample(time, 0, 10, [USER_MARK, address], mode=2)
    capture = import_perf(built.file(), TOOLS, "over")
    files = [capture.frame_files[p[-1]] for p in paths(capture, capture.node.astype(np.int64))]
    assert files == ["/lib/old", "/lib/new", "/lib/old", "/lib/old"]


def test_several_events_are_told_apart_by_their_ids() -> None:
    built = PerfFileBuilder(ids=((7,), (8, 9)))
    for number in (7, 8, 9, 8):
        built.sample(number, 0, 1, [KERNEL_MARK, 0xFFFFFFFF81000210], number=number)
    assert import_perf(built.file(), TOOLS, "two").event.tolist() == [0, 1, 1, 1]


def test_return_addresses_name_the_caller() -> None:
    chain = [KERNEL_MARK, 0xFFFFFFFF81000210, 0xFFFFFFFF81000200]
    built = PerfFileBuilder().sample(1, 0, 1, chain)
    assert stacks(import_perf(built.file(), TOOLS, "calls"))[0][1:] == ["do_syscall_64", "vfs_read"]
    as_perf = TOOLS._replace(name_callers=False)
    assert stacks(import_perf(built.file(), as_perf, "calls"))[0][1:] == ["vfs_read", "vfs_read"]


def test_lost_records_and_throttling_are_said() -> None:
    capture = import_perf(small_capture().lost(1, 77).file(), TOOLS, "lost")
    assert capture.about.lost == 77
    told_again = small_capture().lost(1, 70)
    told_again.records.append(record(13, 0, struct.pack("<Q", 80) + told_again.trailer(2)))
    assert import_perf(told_again.file(), TOOLS, "lost").about.lost == 80, (
        "perf counts at its end what the kernel told before"
    )
    assert any("77" in gap.reason for gap in capture.about.gaps)


def test_hostile_names_are_made_printable() -> None:
    built = PerfFileBuilder().comm(0, 10, b"a\x1b[2J\n\xff").sample(1, 0, 10, [KERNEL_MARK, 0xFFFFFFFF81000210])
    assert import_perf(built.file(), TOOLS, "x").comms == ("a\\x1b[2J\\x0a\\xff",)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "less than"),
        (b"PERFILE2" + b"\xff" * 200, "said to"),
        (b"2ELIFREP" + b"\0" * 100, "big-endian"),
        (b"PERFILE2" + struct.pack("<Q", 16), "no event"),
    ],
)
def test_what_is_no_capture_is_refused_with_a_reason(raw: bytes, why: str) -> None:
    with pytest.raises(BrokenCapture, match=why):
        import_perf(raw, TOOLS, "broken")


def test_a_cut_file_gives_what_is_there_and_says_what_is_missing() -> None:
    whole = small_capture().file()
    capture = import_perf(whole[: len(whole) * 2 // 3], TOOLS, "cut")
    assert 200 < len(capture) < 400
    assert any("bytes" in gap.reason for gap in capture.about.gaps)


def test_a_file_cut_after_its_samples_says_so() -> None:
    """The host, the clock and the build ids lie there: every sample is read, and yet something is missing."""
    plain = bytearray(small_capture().file())
    plain[72] |= 1 << 3  # the host's name
    name = struct.pack("<I", 8) + b"machine\0"
    whole = bytes(plain) + struct.pack("<QQ", len(plain) + 16, len(name)) + name
    assert import_perf(whole, TOOLS, "whole").about.host == "machine"
    assert not [gap for gap in import_perf(whole, TOOLS, "whole").about.gaps if gap.fact == "samples"]
    for cut in range(len(plain), len(whole)):
        capture = import_perf(whole[:cut], TOOLS, "cut")
        assert len(capture) == 400
        assert any("bytes early" in gap.reason for gap in capture.about.gaps), cut


def test_a_stream_cut_at_any_byte_says_so() -> None:
    """Unless it is cut between two records: then nothing is missing that could be known."""
    built = PerfFileBuilder(records=small_capture().records[:12])
    whole = built.pipe()
    ends = {len(whole) - sum(map(len, built.records[number:])) for number in range(len(built.records) + 1)}
    for place in range(len(whole) - 300, len(whole)):
        gaps = import_perf(whole[:place], TOOLS, "cut").about.gaps
        assert any(gap.fact == "samples" for gap in gaps) == (place not in ends), place


def test_a_length_that_lies_is_a_gap_with_its_place() -> None:
    built = small_capture()
    built.records.insert(300, struct.pack("<IHH", 9, 1, 0))
    capture = import_perf(built.file(), TOOLS, "zero")
    assert any("at byte" in gap.reason and "0 bytes" in gap.reason for gap in capture.about.gaps)


def mutated(raw: bytes, dice: random.Random) -> bytes:
    out = bytearray(raw)
    for _ in range(dice.choice((1, 1, 2, 8, 40))):
        place = dice.randrange(len(out))
        out[place] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
    if dice.random() < 0.2:
        del out[dice.randrange(len(out)) :]
    return bytes(out)


@pytest.mark.parametrize("mode", ["file", "pipe"])
def test_mutations_never_crash(mode: str) -> None:
    """1,000 here; `bench/profile/fuzz.py` does more, with the scanner too."""
    built = small_capture()
    raw = built.file()[:6000] if mode == "file" else built.pipe()[:6000]
    dice = random.Random(11)
    for _ in range(500):
        try:
            capture = import_perf(mutated(raw, dice), TOOLS, "fuzz")
        except BrokenCapture as error:
            assert error.why
        else:
            assert len(decode(b"".join(encode(capture)))) == len(capture)
