# SPDX-License-Identifier: Apache-2.0
"""A recording with its history and its captures inside: the same numbers, no names, within a bound; a stranger's is refused."""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.build import Cgroup, v1_machine
from tests.nobody import as_nobody
from tests.unit.cli.test_history import leak

from zombiescope.cli.main import main
from zombiescope.cli.profiles.carrying import lay_down_captures
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.history.carrying import carry as carry_history
from zombiescope.history.store import Store
from zombiescope.pipeline.carrying import CarriedCaptures, Carrying, Places, Words, carry, opened_places
from zombiescope.pipeline.page_time import range_of, series
from zombiescope.web import captures as page_captures

Capture = pytest.CaptureFixture[str]
NOW = 1_700_000_000.0
HOST = "acme-prod-7"


def case(folder: Path, *, with_capture: bool = True) -> Path:
    """A host as a folder, with what its agent remembered."""
    machine = {**v1_machine({b"/a": Cgroup(zombies=3)}), b"/proc/sys/kernel/hostname": f"{HOST}\n".encode()}
    for path, content in machine.items():
        place = folder / os.fsdecode(path.lstrip(b"/"))
        if isinstance(content, bytes):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    state = folder / "var/lib/zombiescope"
    state.mkdir(parents=True)
    leak(state, NOW - 9 * 86_400)
    store = Store(str(state), days=365)
    store.add_happening(NOW, "boot", "unit-restarted", f"billing-{HOST}.service: 3 times")
    store.add_sample(NOW, "boot", {"zombies": 7.0, "died.unit:hollandaise.service": 1.0, "sauce_seconds": 2.0})
    store.close()
    if with_capture:
        from tests.browser.worlds import store_capture  # noqa: PLC0415 (needs numpy)

        store_capture(str(state / "captures"), NOW)
    return folder


def recorded(root: Path, file: Path, *more: str) -> Path:
    assert main(["record", "--root", str(root), "--seconds", "0", str(file), *more]) == 0
    return file


def opened(root: Path, look: Callable[[Places], Any]) -> Any:
    with opened_places(os.fsencode(root), Places(None, None), None, lay_down_captures) as places:
        return look(places)


def test_a_recording_carries_its_history_and_its_captures(tmp_path: Path, capsys: Capture) -> None:
    root = case(tmp_path / "case")
    file = recorded(root, tmp_path / "node.tar.gz")
    said = capsys.readouterr().out
    assert "history: 2023-11-05 22:13Z to 2023-11-14 22:13Z; captures: 1" in said

    def look(places: Places) -> tuple[Any, Any]:
        assert places.state is not None
        told = series(places.state, Thresholds())
        asked = {"series": "zombies", "from": str(NOW - 9 * 86_400), "to": str(NOW + 1)}
        listed = page_captures.listed(places.captures)["captures"]
        return (told["from"], told["to"], [each["name"] for each in told["series"]]), (
            range_of(places.state, asked)["series"],
            listed,
        )

    (begin, end, names), (values, listed) = opened(file, look)
    (_, _, first_names), (first_values, first_listed) = opened(root, look)
    assert (begin, end) == (NOW - 9 * 86_400, NOW)
    assert values == first_values, "this hour, which was in the log, too"
    assert len(names) == len(first_names)
    assert (listed[0]["from"], listed[0]["samples"]) == (first_listed[0]["from"], first_listed[0]["samples"])
    kept = opened(file, lambda places: places.captures)
    assert not os.path.exists(kept), "the folder goes at the end"
    assert main(["history", "--root", str(file), "--last", "all"]) == 0
    assert "60.0 more per hour" in capsys.readouterr().out


def test_a_capture_of_a_recording_can_be_asked(tmp_path: Path) -> None:
    file = recorded(case(tmp_path / "case"), tmp_path / "node.tar.gz")
    flame = opened(file, lambda places: page_captures.ask(places.captures, places.state, "flame", {"side": "usual"}))
    assert flame["samples"] == 101
    assert any(name == "vfs_read" for name, _ in flame["frames"])


def test_no_name_is_in_it(tmp_path: Path) -> None:
    file = recorded(case(tmp_path / "case"), tmp_path / "node.tar.gz")
    with tarfile.open(file) as archive:
        text = b"".join(archive.extractfile(member).read() for member in archive)  # type: ignore[union-attr]
    for name in (b"acme", b"hollandaise", b"sauce", b"billing", b"reader"):
        assert name not in text, name
    lines = text.splitlines()
    told = next(json.loads(line) for line in lines if b"carried-history" in line)["series"].values()
    assert "zombies" in told
    assert any(name.startswith("died.unit:") for name in told)


def test_names_of_makers_stay_where_that_was_asked_for(tmp_path: Path) -> None:
    file = recorded(case(tmp_path / "case"), tmp_path / "node.tar.gz", "--keep-names")
    with tarfile.open(file) as archive:
        text = archive.extractfile("history.jsonl").read()  # type: ignore[union-attr]
    assert b"died.unit:hollandaise.service" in text
    assert HOST.encode() not in text, "never those of hosts"


def test_the_newest_hours_within_the_limit_and_none_at_all(tmp_path: Path, capsys: Capture) -> None:
    root = case(tmp_path / "case", with_capture=False)
    state = root / "var/lib/zombiescope"
    some = carry_history(os.fsencode(state), lambda text: text, 40_000)
    assert some is not None
    assert 0 < some.hours < some.hours_in_all
    assert some.end == NOW
    file = recorded(root, tmp_path / "small.tar.gz", "--history-limit", "0")
    assert "left out (--history-limit 0)" in capsys.readouterr().out
    assert main(["history", "--root", str(file)]) == 3
    assert "there is none in what --root names" in capsys.readouterr().err


def test_an_unpacked_one_and_a_recording_of_a_recording_carry_them_too(tmp_path: Path) -> None:
    file = recorded(case(tmp_path / "case"), tmp_path / "node.tar.gz")
    (tmp_path / "unpacked").mkdir()
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    again = recorded(file, tmp_path / "again.tar.gz")
    spans = [
        opened(root, lambda places: series(places.state or b"", Thresholds())["to"])
        for root in (file, tmp_path / "unpacked", again)
    ]
    assert spans == [NOW] * 3


def test_a_state_folder_that_cannot_be_read_is_said_and_not_taken_for_none() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        state = Path(folder, "state")
        leak(state, NOW - 9 * 86_400)
        state.chmod(0 if os.geteuid() else 0o700)
        wanted = Carrying(Places(os.fsencode(state), None), 1 << 20, lambda *_: CarriedCaptures())

        def work() -> int:
            found = carry(wanted, Words(str, frozenset))
            print(found.words, *found.gaps)
            return len(found.gaps)

        code, said, _ = as_nobody(work)
        state.chmod(0o700)
    assert code == 1
    assert "no history and no captures are in it" in said
    assert "permission denied" in said


HEAD = b'{"schema":"zombiescope.carried-history/1","series":{"1":"zombies"}}'


@pytest.mark.parametrize(
    ("member", "content", "why"),
    [
        ("history.jsonl", b"not json", "its history is not as it was written"),
        ("history.jsonl", b'{"schema":"another/1"}', "its history is not as it was written"),
        ("history.jsonl", HEAD + b'\n{"stretch":[1,"b",0,1e99,1],"packed":{}}', "its history is not as it was written"),
        ("history.jsonl", HEAD + b'\n{"stretch":[1,"b",0,1,1],"packed":{"numbers":"*"}}', "its history is not"),
        ("history.jsonl", HEAD + b"\n[[[[", "its history is not as it was written"),
        ("history.jsonl", b'{"schema":"zombiescope.carried-history/1","series":{"1":"a","2":"a"}}', "one twice"),
        ("captures.jsonl", b'{"capture":"../../etc/x"}', "a name that no capture has"),
        ("captures.jsonl", b'{"capture":"x","texts":{},"columns":5}', "its captures are not as they were written"),
        ("captures.jsonl", b'{"capture":"' + b"A" * 200 + b'"}', "a name that no capture has"),
    ],
)
def test_a_hostile_one_is_refused_with_its_reason(
    tmp_path: Path, capsys: Capture, member: str, content: bytes, why: str
) -> None:
    file = tmp_path / "bad.tar.gz"
    plain = recorded(case(tmp_path / "case", with_capture=False), tmp_path / "plain.tar.gz", "--history-limit", "0")
    with tarfile.open(plain) as old, tarfile.open(file, "w:gz") as archive:
        for one in old:
            archive.addfile(one, old.extractfile(one))
        about = tarfile.TarInfo(member)
        about.size = len(content)
        archive.addfile(about, io.BytesIO(content))
    capsys.readouterr()
    assert main(["history", "--root", str(file)]) == 3
    said = capsys.readouterr().err
    assert why in said
    assert "Traceback" not in said


def test_a_damaged_hour_is_a_gap_and_the_others_stand(tmp_path: Path) -> None:
    file = recorded(case(tmp_path / "case", with_capture=False), tmp_path / "node.tar.gz")
    with tarfile.open(file) as archive:
        members = {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]
    head, first, *rest = members["history.jsonl"].splitlines()
    entry = json.loads(first)
    entry["packed"]["times"] = "aGVsbG8="
    folder = tmp_path / "unpacked"
    folder.mkdir()
    (folder / "recording.jsonl").write_bytes(members["recording.jsonl"])
    (folder / "history.jsonl").write_bytes(b"\n".join([head, json.dumps(entry).encode(), *rest]))
    asked = {"series": "zombies", "from": str(NOW - 9 * 86_400), "to": str(NOW - 9 * 86_400 + 7200)}
    found = opened(folder, lambda places: range_of(places.state or b"", asked))
    assert any("damaged" in gap["reason"] for gap in found["gaps"])
    assert found["series"]["zombies"]
