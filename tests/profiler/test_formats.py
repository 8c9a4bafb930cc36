# SPDX-License-Identifier: Apache-2.0
"""Other tools' formats: what we write, another reader reads; what we read back is what we had."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from opentelemetry.proto.profiles.v1development import profiles_pb2
from tests.profiler.perf_files import TOOLS, small_capture

from zombiescope.profiler.files.reading import Choices, read_capture
from zombiescope.profiler.formats import protobuf
from zombiescope.profiler.formats.json_forms import read_speedscope, write_firefox, write_speedscope
from zombiescope.profiler.formats.protobuf import looks_like_pprof, read_pprof, write_pprof
from zombiescope.profiler.formats.sending import write_otlp
from zombiescope.profiler.formats.text import looks_like_perf_script, read_collapsed, read_perf_script, write_collapsed
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.stacks.capture import BrokenCapture, Capture, Selection, span_ns
from zombiescope.profiler.stacks.flame_graph import paths

SCHEMAS = Path(__file__).resolve().parents[1] / "schemas"
BUSY = {
    ("reader", "[unknown]"): 100,
    ("reader", "[unknown]", "do_syscall_64", "vfs_read"): 100,
    ("swapper", "net_rx_action"): 1,
}


def small() -> Capture:
    return import_perf(small_capture().file(), TOOLS, "small")


def counted(capture: Capture) -> dict[tuple[str, ...], int]:
    found: Counter[tuple[str, ...]] = Counter()
    weights = np.ones(len(capture), np.uint64) if capture.weight is None else capture.weight
    for path, weight in zip(paths(capture, capture.node.astype(np.int64)), weights.tolist(), strict=True):
        found[tuple(capture.frame_names[frame] for frame in path)] += weight
    return dict(found)


def test_collapsed_there_and_back() -> None:
    text = b"".join(write_collapsed(small(), Selection()))
    assert b"reader;[unknown];do_syscall_64_[k];vfs_read_[k] 100\n" in text
    assert counted(read_collapsed(text, "c")) == BUSY


def test_pprof_there_and_back() -> None:
    raw = gzip.decompress(b"".join(write_pprof(small(), Selection())))
    assert looks_like_pprof(raw)
    assert {key[1:]: value for key, value in counted(read_pprof(raw, "p")).items()} == BUSY


def test_speedscope_there_and_back_with_cores_and_times() -> None:
    capture = small()
    raw = b"".join(write_speedscope(capture, Selection()))
    again = read_speedscope(raw, "s")
    assert counted(again) == BUSY, "samples, not the nanoseconds between them"
    assert again.about.rate_hz == capture.about.rate_hz
    assert again.cpu.tolist().count(1) == 200
    document = json.loads(raw)
    assert [profile["name"] for profile in document["profiles"]] == ["cpu 0", "cpu 1"]
    busy = document["profiles"][1]
    assert busy["endValue"] - busy["startValue"] == sum(busy["weights"])
    assert 1.9e9 < sum(busy["weights"]) < 2.1e9


def test_speedscope_documents_hold_to_its_schema() -> None:
    schema = json.loads((SCHEMAS / "speedscope.json").read_text())
    jsonschema.validate(json.loads(b"".join(write_speedscope(small(), Selection()))), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"shared": {}, "profiles": []}, schema)


def test_a_range_is_given_with_its_own_time_and_length() -> None:
    capture = small()
    selection = Selection(0.5, 1.25)
    raw = b"".join(write_otlp(capture, selection))
    message = profiles_pb2.ProfilesData.FromString(raw)
    (profile,) = message.resource_profiles[0].scope_profiles[0].profiles
    assert profile.duration_nano == 750_000_000
    clock = capture.about.clock
    began = int(capture.time[0]) + 500_000_000 + (0 if clock is None else clock.wall_ns - clock.sample_ns)
    assert profile.time_unix_nano == began
    assert span_ns(capture, Selection(end=99)) == (int(capture.time[0]), int(capture.time[-1] - capture.time[0]))
    pprof = dict(protobuf.fields(gzip.decompress(b"".join(write_pprof(capture, selection)))))
    assert pprof[10] == 750_000_000


def test_evented_speedscope_is_read() -> None:
    document = {
        "shared": {"frames": [{"name": "main"}, {"name": "work"}]},
        "profiles": [
            {
                "type": "evented",
                "name": "thread",
                "unit": "milliseconds",
                "startValue": 0,
                "endValue": 10,
                "events": [
                    {"type": "O", "frame": 0, "at": 0},
                    {"type": "O", "frame": 1, "at": 2},
                    {"type": "C", "frame": 1, "at": 8},
                    {"type": "C", "frame": 0, "at": 10},
                ],
            }
        ],
    }
    capture = read_speedscope(json.dumps(document).encode(), "e")
    assert counted(capture) == {("thread", "main"): 2, ("thread", "main", "work"): 3}
    assert [gap.reason for gap in capture.about.gaps] == [
        "it holds durations, which are counted as samples of 2 ms each"
    ]


def test_another_tools_times_are_counted_as_samples_of_the_usual_length() -> None:
    profile = {
        "type": "sampled",
        "name": "thread",
        "unit": "milliseconds",
        "samples": [[0], [1], [0], [1]],
        "weights": [10, 10.4, 30, 9.8],
    }
    document = {"shared": {"frames": [{"name": "a"}, {"name": "b"}]}, "profiles": [profile]}
    capture = read_speedscope(json.dumps(document).encode(), "s")
    assert counted(capture) == {("thread", "a"): 4, ("thread", "b"): 2}
    assert (capture.about.rate_hz, capture.about.gaps) == (None, ())


@pytest.mark.parametrize("own", [[], 7, {"rate_hz": "x"}, {"rate_hz": -1}, {"rate_hz": 1e300}, None])
def test_a_strange_note_of_our_own_is_passed_over(own: object) -> None:
    document = json.loads(b"".join(write_speedscope(small(), Selection())))
    document["zombiescope"] = own
    assert read_speedscope(json.dumps(document).encode(), "s").about.rate_hz is None


@pytest.mark.parametrize("first", ["job", "zoo", "bar", "R"])
def test_collapsed_stacks_are_never_taken_for_pprof(first: str, tmp_path: Path) -> None:
    """Letters are numbers of fields and lengths, too: lines as long as their second letter says make up a message."""
    file, length = tmp_path / "stacks.txt", ord((first + ";")[1])
    lines = [f"{first};main;step_{number}" for number in range(1, 200)]
    file.write_text("".join(f"{line:x<{length - len(str(n))}} {n}\n" for n, line in enumerate(lines, 1)))
    capture = read_capture(bytes(file), Choices())
    assert capture.comms == (first,)
    assert sum(counted(capture).values()) == 199 * 100


def test_pprof_is_told_by_its_first_bytes_packed_or_not(tmp_path: Path) -> None:
    packed = b"".join(write_pprof(small(), Selection()))
    for name, content in (("a.pb.gz", packed), ("a.pb", gzip.decompress(packed))):
        (tmp_path / name).write_bytes(content)
        assert sum(counted(read_capture(bytes(tmp_path / name), Choices())).values()) == 201


def test_what_only_looks_like_pprof_is_refused() -> None:
    with pytest.raises(BrokenCapture, match="no table of names"):
        read_pprof(b"".join(write_otlp(small(), Selection())), "otlp")


def test_otlp_is_read_by_the_official_messages() -> None:
    data = profiles_pb2.ProfilesData()
    data.ParseFromString(b"".join(write_otlp(small(), Selection())))
    words = data.dictionary.string_table
    profile = data.resource_profiles[0].scope_profiles[0].profiles[0]
    found: Counter[tuple[str, ...]] = Counter()
    by_core: Counter[int] = Counter()
    for sample in profile.samples:
        (attribute,) = [data.dictionary.attribute_table[number] for number in sample.attribute_indices]
        assert words[attribute.key_strindex] == "cpu.logical_number"
        assert attribute.value.WhichOneof("value") == "int_value"
        by_core[attribute.value.int_value] += len(sample.timestamps_unix_nano)
        stack = data.dictionary.stack_table[sample.stack_index]
        lines = [data.dictionary.location_table[place].lines[0] for place in reversed(stack.location_indices)]
        names = tuple(words[data.dictionary.function_table[line.function_index].name_strindex] for line in lines)
        found[names] += len(sample.timestamps_unix_nano)
    assert found == BUSY
    assert by_core == {0: 1, 1: 200}


def test_the_firefox_profile_has_consistent_tables() -> None:
    document = json.loads(b"".join(write_firefox(small(), Selection())))
    assert [thread["name"] for thread in document["threads"]] == ["cpu 0", "cpu 1"]
    thread = document["threads"][1]
    assert thread["samples"]["length"] == 200
    for table in ("stackTable", "frameTable", "funcTable", "resourceTable"):
        lengths = {len(column) for key, column in thread[table].items() if key != "length"}
        assert lengths == {thread[table]["length"]}, table
    names = []
    stack = thread["samples"]["stack"][-1]
    while stack is not None:
        frame = thread["stackTable"]["frame"][stack]
        names.append(thread["stringArray"][thread["funcTable"]["name"][thread["frameTable"]["func"][frame]]])
        stack = thread["stackTable"]["prefix"][stack]
    assert names == ["vfs_read", "do_syscall_64", "[unknown]", "reader"]


SCRIPT = b"""# captured on: today
python3 my app 77 [001] 12.000100:     250000 cpu-clock:
\tffffffff81000210 vfs_read+0x10 ([kernel.kallsyms])
\t          401234 do (odd) name+0x4 (/tmp/a (deleted))

swapper     0 [000] 12.000200:          1 task-clock:u:
\tffffffff81000310 pv_native_safe_halt+0xb ([kernel.kallsyms])

junk
"""


def test_perf_script_text_is_read() -> None:
    assert looks_like_perf_script(SCRIPT)
    capture = read_perf_script(SCRIPT, "text")
    assert set(counted(capture)) == {
        ("python3 my app", "do (odd) name", "vfs_read"),
        ("swapper", "pv_native_safe_halt"),
    }
    assert capture.time.tolist() == [12_000_100_000, 12_000_200_000]
    assert capture.cpu.tolist() == [1, 0]
    assert [capture.events[number] for number in capture.event.tolist()] == ["cpu-clock", "task-clock:u"]
    assert [gap.reason for gap in capture.about.gaps] == ["1 pieces of text are no sample and are left out"]
    assert capture.idle.tolist() == [False, True]
    assert "1 pieces" in capture.about.gaps[0].reason


def test_text_that_ends_within_a_line_is_cut() -> None:
    gaps = read_perf_script(SCRIPT[: SCRIPT.index(b"halt")], "text").about.gaps
    assert ["cut off" in gap.reason for gap in gaps] == [True]


@pytest.mark.parametrize("raw", [b"hello\nworld\n", b"{}", b'{"shared":1}', b"\xff\x00\x01junk"])
def test_what_is_none_of_them_is_refused(raw: bytes) -> None:
    reader = read_speedscope if raw.startswith(b"{") else read_pprof if b"\0" in raw else read_collapsed
    with pytest.raises(BrokenCapture):
        reader(raw, "x")


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        (b"\tffffffff81000210 vfs_read+0x10 ([kernel.kallsyms])", ("vfs_read", "[kernel]")),
        (b" 400200 a(int, b*) const+0x1 (/usr/lib/x (deleted))", ("a(int, b*) const", "/usr/lib/x (deleted)")),
        (b" 400200 [unknown] (/memfd:a (deleted))", ("[unknown]", "/memfd:a (deleted)")),
        (b" 400200 plain (//anon)", ("plain", "//anon")),
    ],
)
def test_a_line_of_perf_script_is_a_frame(line: bytes, frame: tuple[str, str]) -> None:
    capture = read_perf_script(b"a 1 [000] 1.0: cycles:\n" + line + b"\n", "x")
    assert (capture.frame_names[1], capture.frame_files[1]) == frame


@pytest.mark.parametrize("line", [b" zz x (y)", b" 12 x y)", b" 12 x (y", b" 12 x(y)", b" 12 (a) (b) c)", b""])
def test_another_line_is_none(line: bytes) -> None:
    capture = read_perf_script(b"a 1 [000] 1.0: cycles:\n" + line + b"\n", "x")
    assert capture.frame_names == ("a",)


def test_a_small_profile_does_not_unfold_without_end() -> None:
    place = protobuf.number_field(1, 1) + b"".join(
        protobuf.message_field(4, protobuf.number_field(1, n)) for n in range(1, 12_000)
    )
    functions = b"".join(
        protobuf.message_field(5, protobuf.number_field(1, n) + protobuf.number_field(2, 1 + n % 2))
        for n in range(1, 12_000)
    )
    sample = protobuf.message_field(2, protobuf.packed_field(1, [1]) + protobuf.packed_field(2, [1]))
    names = protobuf.text_field(6, "") + protobuf.text_field(6, "f") + protobuf.text_field(6, "g")
    with pytest.raises(BrokenCapture, match="unfold"):
        read_pprof(names + functions + protobuf.message_field(4, place) + sample * 5_000, "x")


def test_numbers_beyond_all_bounds_are_no_bug() -> None:
    text = b"a 4294967299 [999999999] 9999999999.9: cycles:\n\t12 x (y)\n"
    assert len(read_perf_script(text, "x")) == 1
    profile = {"type": "sampled", "unit": "seconds", "name": "x", "samples": [[0]], "weights": [1e200]}
    document = {"shared": {"frames": [{"name": "f"}]}, "profiles": [profile]}
    assert len(read_speedscope(json.dumps(document).encode(), "x")) == 1
