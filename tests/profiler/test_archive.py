# SPDX-License-Identifier: Apache-2.0
"""An archive in a folder: what was shipped is there once and whole, hot functions are found over nodes, and how it refuses."""

from __future__ import annotations

import errno
import json
import os
import random
import shlex
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.profiler.archived import FILE, PLANTED, seeds, ship_fleet
from tests.profiler.many_nodes import node_capture

from zombiescope.analysis.exact_test import compare_groups
from zombiescope.cli.main import main
from zombiescope.errors import ObservationError, UsageError
from zombiescope.profiler.archive import counting, places
from zombiescope.profiler.archive.asking import Question, ask_difference, ask_flame, changes, count_here, cut, joined
from zombiescope.profiler.archive.catalogue import Groups, Times, read_catalogue, read_terms
from zombiescope.profiler.archive.counting import Asked, Slot
from zombiescope.profiler.archive.places import Where, place_at, ship
from zombiescope.profiler.archive.schema import MARKER, TABLES, Labels, pack
from zombiescope.profiler.files import store
from zombiescope.profiler.formats.capture_file import encode
from zombiescope.profiler.stacks.across_nodes import AGAINST, WHERE, Merged
from zombiescope.profiler.stacks.branches import Boxes
from zombiescope.profiler.stacks.capture import Selection
from zombiescope.profiler.stacks.flame_graph import flame_graph, shape_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    assert ship_fleet(place_at(Where(str(folder)))) == (PLANTED, 24)
    return folder


def files_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def run(*words: str) -> int:
    return main(["profile", *words])


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    capsys.readouterr()
    assert run("fleet", *words, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def question(folder: Path, where: str, against: str = "") -> Question:
    place = Where(str(folder))
    terms = [read_terms([text] if text else [], "--where") for text in (where, against)]
    return Question(place, terms[0], terms[1], Times(), Asked(place, 0, 0, 0))


def test_shipping_twice_changes_nothing(archive: Path) -> None:
    before = files_of(archive)
    assert len(before) == 1 + 3 * 24
    assert ship_fleet(place_at(Where(str(archive))), again=True)[1] == 0
    assert files_of(archive) == before


def test_the_same_capture_gives_the_same_bytes() -> None:
    capture, labels = node_capture(seeds()[0], 3, 500, None)
    assert pack(capture, "name", "x", labels) == pack(capture, "name", "x", labels)


def test_a_shipper_killed_in_the_middle_leaves_nothing_that_counts(tmp_path: Path) -> None:
    code = (
        "import os\nfrom tests.profiler import archived\nfrom zombiescope.host import whole_file\n"
        "from zombiescope.profiler.archive import places\n"
        "give, left = whole_file._give_name, [5]\n"
        "def killed(*words, **more):\n"
        "    left[0] -= 1\n"
        "    os._exit(9) if not left[0] else give(*words, **more)\n"
        "whole_file._give_name = killed\n"
        f"archived.ship_fleet(places.place_at(places.Where({str(tmp_path)!r})))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 9
    place = place_at(Where(str(tmp_path)))
    assert len(read_catalogue(place, Times()).entries) == 1
    assert ship_fleet(place)[1] == 23
    assert len(read_catalogue(place, Times()).entries) == 24


def test_what_was_planted_is_found_first_and_nothing_in_a_null_archive(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, "diff", "--archive", str(archive), "--where", "zone=c", "--against", "zone=a,b")
    assert found["verdict"] == "found"
    rows = found["found"]
    assert isinstance(rows, list)
    assert (rows[0]["function"], rows[0]["file"]) == (PLANTED, FILE)
    assert rows[0]["low"] <= 0.08 <= rows[0]["high"] + 0.02
    assert found["where"] == {"nodes": 6, "captures": 6, "samples": found["where"]["samples"]}  # type: ignore[index]
    assert (
        document(capsys, "diff", "--archive", str(archive), "--where", "zone=d", "--against", "zone=a,b")["found"] == []
    )
    ship_fleet(place_at(Where(str(tmp_path))), more=0)
    null = document(capsys, "diff", "--archive", str(tmp_path), "--where", "zone=c")
    assert (null["verdict"], null["found"]) == ("none", [])


def test_a_few_nodes_are_too_few(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run("fleet", "diff", "--archive", str(archive), "--where", "node=node-0002,node-0006", "--against", "zone=a")
        == 0
    )
    told = capsys.readouterr().out
    assert told.startswith("too few nodes to tell: 2 nodes here, 6 there; at least 5 nodes of each kind are needed")


def test_counts_are_those_of_the_captures(archive: Path) -> None:
    """The archive's flame graph of one node is that of its capture."""
    capture, _ = node_capture(seeds()[0], 0, 1500, None)
    ours = ask_flame(question(archive, "node=node-0000"), count_here)
    theirs = flame_graph(capture, shape_of(capture.tree), Selection())
    assert ours.graph.samples == theirs.samples
    names = [
        (capture.frame_names[each] if each < len(capture.frame_names) else "all") for each in theirs.frame.tolist()
    ]
    mine = [ours.frames[each][0] for each in ours.graph.frame.tolist()]
    key = zip(names, theirs.depth.tolist(), theirs.total.tolist(), theirs.self.tolist(), strict=True)
    assert sorted(
        zip(mine, ours.graph.depth.tolist(), ours.graph.total.tolist(), ours.graph.self.tolist(), strict=True)
    ) == sorted(key)


def test_the_moments_are_where_they_were_planted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = place_at(Where(str(tmp_path)))
    capture, labels = node_capture(seeds()[0], 0, 30_000, None)
    hot = [number for number, name in enumerate(capture.frame_names) if name == PLANTED]
    inside = np.isin(capture.tree.frame[capture.node], hot)
    at = capture.time[0] + np.uint64(12 * 10**9)
    held = (capture.cpu == 7) & (capture.time >= at) & (capture.time < at + np.uint64(4 * 10**9))
    node = np.where(held, capture.node[inside][0], capture.node)
    ship(place, replace(capture, node=node.astype(np.uint32)), "held", labels)
    found = document(capsys, "find", "--archive", str(tmp_path), "--function", PLANTED, "--window", "1")
    first = found["moments"][0]  # type: ignore[index]
    assert (first["node"], first["core"], first["capture"]) == ("node-0000", 7, "held")
    assert first["core_share"] > 0.9
    assert first["begin"][:16] == "2026-09-21T14:13"
    assert run("fleet", "find", "--archive", str(tmp_path), "--function", "no_such_function") == 0
    assert "was not seen" in capsys.readouterr().out


def test_windows_that_follow_each_other_are_one_moment() -> None:
    slots = [
        Slot("n", "t", 1, begin, samples, samples / 50) for begin, samples in ((0, 10), (10, 40), (20, 50), (40, 45))
    ]
    assert [(each.begin, each.end, each.samples) for each in joined(slots, 10)] == [
        (10, 30, 90),
        (40, 50, 45),
        (0, 10, 10),
    ]


@pytest.mark.parametrize(
    ("flags", "fewer"),
    [
        (["--core", "3"], True),
        (["--cgroup", "/pods/*"], True),
        (["--kernel"], True),
        (["--user"], True),
        (["--since", "2026-09-21T14:13:25", "--until", "2026-09-21T14:13:26"], True),
        (["--since", "2020-01-01", "--until", "2021-01-01"], True),
        (["--event", "cpu-clock"], False),
    ],
)
def test_filters_count_what_they_say(
    archive: Path, flags: list[str], fewer: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = document(capsys, "flame", "--archive", str(archive))["samples"]
    some = document(capsys, "flame", "--archive", str(archive), *flags)["samples"]
    assert isinstance(some, int)
    assert isinstance(whole, int)
    assert some < whole if fewer else some == whole


def test_a_cgroup_is_asked_for_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    r"""systemd writes a dash in a name as `\x2d`: no glob of SQL, and no set."""
    capture, labels = node_capture(seeds()[0], 0, 500, None)
    names = (r"/system.slice/system-back\x2dup.slice", "/odd[1]", "/\n; é")
    cgroup = np.arange(len(capture)) % 3
    ship(place_at(Where(str(tmp_path))), replace(capture, cgroups=names, cgroup=cgroup.astype(np.uint32)), "x", labels)
    for name, glob in zip(names, (r"*back\x2d*", "/odd?1]", "/?; ?"), strict=True):
        for asked in (name, glob):
            said = document(capsys, "flame", "--archive", str(tmp_path), "--cgroup", asked, "--idle")
            assert said["samples"] == (cgroup == names.index(name)).sum(), asked


def test_a_later_version_is_refused_and_left_alone(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / MARKER).write_text('{"schema": "zombiescope.archive/2"}')
    place = place_at(Where(str(newer)))
    capture, labels = node_capture(seeds()[0], 0, 100, None)
    with pytest.raises(
        ObservationError, match=r"format is zombiescope.archive/2, and this program reads zombiescope.archive/1"
    ):
        ship(place, capture, "x", labels)
    assert [path.name for path in newer.iterdir()] == [MARKER]
    assert run("fleet", "top", "--archive", str(newer)) == 3
    assert "use the zombiescope that wrote it" in capsys.readouterr().err
    other = tmp_path / "other"
    ship(place_at(Where(str(other))), capture, "x", labels)
    row = next((other / "captures").rglob("*.parquet"))
    table = pq.read_table(row, partitioning=None)
    pq.write_table(table.set_column(0, "version", pa.array([2])), row)
    assert run("fleet", "top", "--archive", str(other)) == 3
    assert "zombiescope.archive/2" in capsys.readouterr().err


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("harm", ["cut", "garbage", "gone", "text"])
def test_a_damaged_file_is_a_gap_not_a_traceback(
    tmp_path: Path, table: str, harm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = place_at(Where(str(tmp_path)))
    for number in (0, 1):
        capture, labels = node_capture(seeds()[0], number, 200, None)
        ship(place, capture, "x", labels)
    file = min((tmp_path / table).rglob("*.parquet"))
    whole = file.read_bytes()
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes({"cut": whole[:-20], "garbage": whole[:60] + os.urandom(len(whole) - 60), "text": b"x"}[harm])
    assert run("fleet", "top", "--archive", str(tmp_path)) == 0
    told = capsys.readouterr().out
    assert "over 1 node" in told
    if (table, harm) != ("captures", "gone"):
        assert "unknown: 1" in told


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": 7}', b"\xff" * 9000, b"[" * 4000])
def test_a_damaged_marker_is_mended_as_it_is_told(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture, labels = node_capture(seeds()[0], 0, 500, None)
    ship(place_at(Where(str(tmp_path))), capture, "x", labels)
    marker = tmp_path / MARKER
    marker.write_bytes(content)
    before = files_of(tmp_path)
    assert run("fleet", "top", "--archive", str(tmp_path)) == 3
    told = capsys.readouterr().err
    with pytest.raises(ObservationError):
        ship(place_at(Where(str(tmp_path))), capture, "x", labels, replace=True)
    assert files_of(tmp_path) == before, "nobody knows what it is: it is left alone"
    if b"schema" not in content:
        marker.write_text(told.partition("put ")[2].partition(" into")[0])
        assert run("fleet", "top", "--archive", str(tmp_path)) == 0


@pytest.mark.parametrize(("table", "column"), [("captures", "title"), ("stacks", "function")])
def test_a_small_file_that_becomes_a_large_one_is_not_read(
    table: str, column: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that take kilobytes in the file, and would take all memory out of it: told by what Parquet says beforehand."""
    capture, labels = node_capture(seeds()[0], 0, 500, None)
    ship(place_at(Where(str(tmp_path))), capture, "x", labels)
    file = next((tmp_path / table).rglob("*.parquet"))
    rows = pq.read_table(file)
    names = rows[column].to_pylist()
    names[0] = "a" * (20 << 20)
    place = rows.column_names.index(column)
    pq.write_table(rows.set_column(place, column, pa.array(names)), file, compression="zstd", store_schema=False)
    assert file.stat().st_size < 1 << 20
    monkeypatch.setattr(counting, "_MOST_UNPACKED", 10 << 20)  # of stacks; half a gigabyte is too much for a test
    assert run("fleet", "top", "--archive", str(tmp_path)) == 0
    assert "unknown: 1 " in capsys.readouterr().out


def test_more_samples_than_it_says_are_not_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of one row cost nothing in the file, and a processor for hours."""
    capture, labels = node_capture(seeds()[0], 0, 500, None)
    ship(place_at(Where(str(tmp_path))), capture, "x", labels)
    file = next((tmp_path / "samples").rglob("*.parquet"))
    rows = pq.read_table(file)
    pq.write_table(pa.concat_tables([rows, rows]), file, store_schema=False)
    assert run("fleet", "top", "--archive", str(tmp_path)) == 0
    assert "1 capture of the archive could not be read" in capsys.readouterr().out


def test_stacks_that_are_no_tree_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = place_at(Where(str(tmp_path)))
    capture, labels = node_capture(seeds()[0], 0, 200, None)
    ship(place, capture, "x", labels)
    file = next((tmp_path / "stacks").rglob("*.parquet"))
    table = pq.read_table(file, partitioning=None)
    size = table["size"].to_numpy().copy()
    for wrong in (0, 1 << 31):
        size[1] = wrong
        pq.write_table(table.set_column(2, "size", pa.array(size)), file)
        assert run("fleet", "flame", "--archive", str(tmp_path)) == 0
        assert "unknown: 1 capture of the archive could not be read" in capsys.readouterr().out


def test_a_sample_of_a_stack_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = place_at(Where(str(tmp_path)))
    capture, labels = node_capture(seeds()[0], 0, 200, None)
    ship(place, capture, "x", labels)
    file = next((tmp_path / "samples").rglob("*.parquet"))
    table = pq.read_table(file, partitioning=None)
    column = table.column_names.index("stack")
    for wrong in (-1, 1 << 31):
        stack = table["stack"].to_numpy().astype(np.int64)
        stack[0] = wrong
        pq.write_table(table.set_column(column, "stack", pa.array(stack)), file)
        assert run("fleet", "flame", "--archive", str(tmp_path)) == 0
        assert "unknown: 1 capture of the archive could not be read" in capsys.readouterr().out


def test_strange_names_stay_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = place_at(Where(str(tmp_path / "a [1]*?")))
    capture, _ = node_capture(seeds()[0], 0, 400, None)
    names = tuple("evil\n\x1b[31m'; drop table x" if name == PLANTED else name for name in capture.frame_names)
    node = capture.node.copy()
    hot = [number for number, name in enumerate(capture.frame_names) if name == PLANTED]
    node[:] = np.flatnonzero(np.isin(capture.tree.frame, hot))[0]
    cgroups = ("", *(f"/x\n{each}\udcff" for each in capture.cgroups[1:]))
    strange = replace(capture, frame_names=names, cgroups=cgroups, node=node)
    labels = Labels("no\nde/../..\x1b", "zone 'c'", "debian 12", "6.1")
    shipped = ship(place, strange, "ti\x1btle", labels)
    assert shipped.name.startswith("no-de-2026")
    for words in (
        ["top"],
        ["flame"],
        ["find", "--function", "evil*"],
        ["top", "--where", "image=debian 12 zone='zone 'c'"],
    ):
        assert run("fleet", *words, "--archive", str(tmp_path / "a [1]*?")) in (0, 2)
        told = capsys.readouterr().out
        assert "\x1b" not in told
    assert run("fleet", "top", "--archive", str(tmp_path / "a [1]*?"), "--where", "image=debian 12") == 0
    told = capsys.readouterr().out
    assert r"evil\x0a\x1b[31m'; drop table x" in told
    assert len(list((tmp_path / "a [1]*?").rglob("*.parquet"))) == 3


def test_a_capture_of_no_known_time_is_refused(tmp_path: Path) -> None:
    capture, labels = node_capture(seeds()[0], 0, 100, None)
    with pytest.raises(UsageError, match="nobody knows when"):
        ship(place_at(Where(str(tmp_path))), replace(capture, about=capture.about._replace(clock=None)), "x", labels)
    assert list(tmp_path.iterdir()) == []


def test_a_zone_that_is_not_there_is_said_with_those_that_are(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fleet", "diff", "--archive", str(archive), "--where", "zone=c", "--against", "zone=x") == 2
    told = capsys.readouterr().err
    assert "cannot find zone=x" in told
    assert "by zone there are: a, b, c, d" in told


def test_nodes_are_not_compared_with_themselves(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fleet", "diff", "--archive", str(archive), "--where", "zone=b,c", "--against", "zone=c") == 2
    assert "every node that --against names is one of --where" in capsys.readouterr().err
    assert run("fleet", "diff", "--archive", str(archive), "--where", "zone=c", "--against", "zone=b,c") == 0
    assert "there: zone=b,c (6 nodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "zone=a'; drop table samples; --",
        "zone=a' or '1'='1",
        'zone="a"',
        "zone=(select 1)",
        "zone=a or zone=b",
        "zone=[",
    ],
)
def test_terms_are_no_sql(archive: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fleet", "top", "--archive", str(archive), "--where", text) == 2
    assert f"cannot find {text}" in capsys.readouterr().err


@pytest.mark.parametrize("glob", ["' or 1=1 --", "[", "?' union select 1 --"])
def test_globs_are_no_sql(archive: Path, glob: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fleet", "top", "--archive", str(archive), "--cgroup", glob) == 0
    assert "no sample" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["zone", "=c", "planet=earth", "zone=", "1=1", "zone!=a"])
def test_terms_that_say_nothing_are_refused(archive: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fleet", "top", "--archive", str(archive), "--where", text) == 2
    assert "a term is one of node, zone, image, kernel" in capsys.readouterr().err


def test_a_node_of_any_name_is_chosen_as_it_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command that is printed, and as it was shipped."""
    capture, labels = node_capture(seeds()[0], 0, 500, None)
    name = "no\nde,a b\x1b[1m"
    ship(place_at(Where(str(tmp_path))), capture, "x", labels._replace(node=name))
    assert run("fleet", "find", "--archive", str(tmp_path)) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    printed = shlex.split(last.partition(": ")[2])
    assert printed[:4] == ["zombiescope", "profile", "fleet", "flame"]
    for words in (printed[2:], ["fleet", "flame", "--archive", str(tmp_path), "--where", f"node={name}"]):
        assert run(*words) == 0, words
        assert "no sample" not in capsys.readouterr().out


def test_no_archive_and_no_such_scheme_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fleet", "top", "--archive", str(tmp_path)) == 2
    assert "there is no archive" in capsys.readouterr().err
    assert run("fleet", "top", "--archive", "gs://bucket/x") == 2
    assert "only folders and s3://" in capsys.readouterr().err
    assert run("fleet", "diff", "--archive", str(tmp_path)) == 2
    assert "--where zone=c" in capsys.readouterr().err


def test_pieces_hold_everything_once_and_the_order_of_parts_does_not_matter(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ask_difference(question(archive, "zone=c"), count_here, compare_groups)
    monkeypatch.setattr("zombiescope.profiler.archive.asking.SAMPLES_OF_A_PIECE", 4000)
    entries = read_catalogue(place_at(Where(str(archive))), Times()).entries
    assert len(cut(Groups(entries, ()))) == 12
    pieces = ask_difference(question(archive, "zone=c"), count_here, compare_groups)
    assert pieces.found == whole.found
    assert pieces.graph.total.tolist() == whole.graph.total.tolist()
    assert [pieces.frames[each] for each in pieces.graph.frame] == [whole.frames[each] for each in whole.graph.frame]


def test_ship_command_names_the_node_and_says_the_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture, _ = node_capture(seeds()[0], 5, 2000, None)
    store.save(os.fsencode(tmp_path / "captures"), b"part", encode(capture))
    words = ["ship", "--to", str(tmp_path / "archive"), "--captures", str(tmp_path / "captures"), "--zone", "z"]
    assert run(*words) == 2
    assert run(*words, "--all") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith(f"shipped 1 capture to {tmp_path}/archive: 2,000 samples, ")
    assert told[0].endswith("bytes per sample)")
    assert told[-1].endswith(f"zombiescope profile fleet top --archive {tmp_path}/archive")
    assert run(*words, "part") == 0
    assert "nothing to ship" in capsys.readouterr().out
    assert run(*words, "part", "--image", "i-2", "--replace", "--json") == 0
    assert json.loads(capsys.readouterr().out)["captures"][0]["was_there"] is False
    entry = read_catalogue(place_at(Where(str(tmp_path / "archive"))), Times()).entries[0]
    assert entry.labels == Labels("node-0005", "z", "i-2", capture.about.kernel or "")


def test_a_capture_without_a_clock_needs_a_time_and_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dated, _ = node_capture(seeds()[0], 5, 300, None)
    for name, capture in (("dated", dated), ("undated", replace(dated, about=dated.about._replace(clock=None)))):
        store.save(os.fsencode(tmp_path / "captures"), name.encode(), encode(capture))
    words = ["ship", "--to", str(tmp_path / "archive"), "--captures", str(tmp_path / "captures")]
    assert run(*words, "undated") == 2
    assert "give --at" in capsys.readouterr().err
    assert run(*words, "--all") == 0
    told = capsys.readouterr().out
    assert told.startswith("shipped 1 capture to ")
    assert "unknown: cannot ship undated: nobody knows when its samples were taken" in told
    assert run(*words, "undated", "--at", "2026-01-31T14:02") == 0
    entries = read_catalogue(place_at(Where(str(tmp_path / "archive"))), Times()).entries
    assert sorted(each.path[:15] for each in entries) == ["date=2026-01-31", "date=2026-09-21"]
    long = replace(dated, time=np.linspace(0, 2e5 * 1e9, len(dated)).astype(np.uint64))
    with pytest.raises(UsageError, match="longer than a day"):
        ship(place_at(Where(str(tmp_path / "archive"))), long, "x", Labels("n"))


def test_ray_that_is_not_installed_is_said(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if find_spec("ray") is not None:
        pytest.skip("Ray is installed here")
    assert run("fleet", "top", "--archive", str(archive), "--engine", "ray") == 2
    assert "ray is not installed" in capsys.readouterr().err


def test_pictures_are_written(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fleet", "diff", "--archive", str(archive), "--where", "zone=c", "--svg", str(tmp_path / "d.svg")) == 0
    drawn = (tmp_path / "d.svg").read_text(encoding="utf-8")
    assert "larger share than there" in drawn
    assert PLANTED in drawn
    assert run("fleet", "flame", "--archive", str(archive), "--svg", str(tmp_path / "f.svg")) == 0
    assert "24 nodes" in (tmp_path / "f.svg").read_text(encoding="utf-8")
    assert capsys.readouterr().out.count("wrote ") == 2


@pytest.mark.parametrize("table", TABLES)
def test_mutated_files_give_an_answer_or_a_reason(
    tmp_path: Path, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """4,700 such mutations were tried when it was written; two kinds of traceback were found and mended."""
    place, dice = place_at(Where(str(tmp_path))), random.Random(table)
    for number in (0, 1):
        capture, labels = node_capture(seeds()[0], number, 200, None)
        ship(place, capture, "x", labels)
    file = min((tmp_path / table).rglob("*.parquet"))
    whole = file.read_bytes()
    for number in range(20):
        changed = bytearray(whole)
        for _ in range(dice.randint(1, 5)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        if number % 4 == 0:
            del changed[(at := dice.randrange(len(changed))) : at + 30]
        file.write_bytes(changed)
        words = dice.choice((["top"], ["flame"], ["find", "--function", "do_*"], ["diff", "--where", "node=node-0000"]))
        assert run("fleet", *words, "--archive", str(tmp_path)) in (0, 2, 3)
    assert "Traceback" not in capsys.readouterr().err


def test_own_time_is_told_where_what_it_calls_hides_it() -> None:
    """`outer` itself takes more here; what it calls takes anything from little to much on every node."""
    dice = np.random.default_rng(8)
    merged, rows = Merged(), list[tuple[str, int, int]]()
    keys = (("all", ""), ("outer", "[kernel]"), ("inner", "[kernel]"), ("rest", "[kernel]"))
    for number in range(40):
        here, inner = number < 20, int(dice.integers(500, 6000))
        rows.append(("here" if here else "there", (500 if here else 200) + int(dice.integers(0, 50)), inner))
        boxes = Boxes(
            np.array([0, 0, 1, 0]),
            (np.array([0]), np.array([1, 3]), np.array([2])),
            np.arange(4),
            np.array([10_000, rows[-1][1] + inner, inner, 10_000 - rows[-1][1] - inner]),
            np.array([0, rows[-1][1], inner, 10_000 - rows[-1][1] - inner]),
        )
        merged.add(keys, boxes, WHERE if here else AGAINST)
    shares = [[(own + inner) / 10_000, own / 10_000] for _, own, inner in rows]
    columns = [([each[column] for each in shares[:20]], [each[column] for each in shares[20:]]) for column in (0, 1)]
    whole, own = compare_groups(columns, 20, 20).shifts
    assert not whole.is_found
    assert own.is_found
    told = changes({}, {keys[1]: own}, merged)
    assert [(each.key, each.is_own, each.passed_to) for each in told] == [(keys[1], True, None)]


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(places, "write_whole", full)
    place = place_at(Where(str(tmp_path / "not" / "there")))
    capture, labels = node_capture(seeds()[0], 0, 100, None)
    with pytest.raises(ObservationError) as found:
        ship(place, capture, "one", labels)
    mount = tmp_path
    while not mount.is_mount():
        mount = mount.parent
    assert found.value.hint.startswith(f"make room on the file system at {mount},")
