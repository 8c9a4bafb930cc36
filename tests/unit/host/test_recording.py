# SPDX-License-Identifier: Apache-2.0
"""A recording gives back what was seen, also of a host that changed meanwhile; and nothing that tells who or where."""

from __future__ import annotations

import errno
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import V1_MOUNT, Cgroup, Machine, ScriptedHost, Use, proc_cgroups, v1_machine, v2_machine

from zombiescope.diagnosis.finding import Verdict
from zombiescope.errors import ActionUndoneError, UsageError
from zombiescope.host import bundle
from zombiescope.host.live import choose_host
from zombiescope.host.recorder import RecordingHost
from zombiescope.host.recording import MEMBER, Answer, Header, ReplayHost, decode, encode
from zombiescope.host.scrub import Scrubber
from zombiescope.pipeline.doctor import examine
from zombiescope.pipeline.record import record
from zombiescope.pipeline.scan import scan
from zombiescope.presenters.doctor_report import Report, render_report
from zombiescope.presenters.scan_json import render_scan

DEAD = Use(file=8192, shmem=4096)
GROUPS = {b"/a": Cgroup(zombies=1500, dead=DEAD), b"/a/b": Cgroup(own=Use(anon=4096)), b"/c\xff\n": Cgroup()}
HEADER = Header("0", "this host")


def _documents(host: Any) -> list[dict[str, Any]]:
    seen = scan(host)
    return [render_scan(seen.observation, seen.diagnosis)]


def _doctor(host: Any) -> dict[str, Any]:
    examined = examine(host, 2)
    return render_report(Report(examined.case, examined.diagnosis))


def _churn() -> ScriptedHost:
    """Counts that move within a look and between looks, a cgroup that vanishes and one that comes."""
    machine: dict[bytes, Any] = dict(v1_machine(GROUPS))
    machine[b"/proc/cgroups"] = [proc_cgroups(1520), proc_cgroups(1519), proc_cgroups(1507), proc_cgroups(1512)]
    gone = {V1_MOUNT + b"/a/b": None, V1_MOUNT + b"/new/memory.stat": b"", V1_MOUNT + b"/new/cgroup.procs": b""}
    stat = V1_MOUNT + b"/c\xff\n/memory.stat"
    return ScriptedHost(machine, [{}, {stat: errno.ENODEV}, gone, {b"/proc/cgroups": proc_cgroups(1511)}])


@pytest.mark.parametrize(
    "make", [_churn, lambda: ScriptedHost(v1_machine(GROUPS)), lambda: ScriptedHost(v2_machine(GROUPS))]
)
def test_a_replay_gives_the_same_documents(make: Any, tmp_path: Path) -> None:
    """Word for word, but for the name of the host."""
    file = str(tmp_path / "x.tar.gz")
    recorder = RecordingHost(make(), Scrubber(keeps_names=True))
    live = _doctor(recorder)
    bundle.publish(file, bundle.pack(HEADER, recorder.answers), replace=True)
    scanned = _documents(make())
    live["host"]["name"] = scanned[0]["host"]["name"] = "host1"
    assert _doctor(bundle.open_bundle(file.encode())) == live
    assert _documents(bundle.open_bundle(file.encode())) == scanned


def test_a_cgroup_that_vanished_while_recording_is_no_missing_file() -> None:
    machine = v1_machine(GROUPS)
    host = ScriptedHost(machine, after_walk=lambda host: host.change({V1_MOUNT + b"/a/b": None}))
    recorder = RecordingHost(host, Scrubber(keeps_names=True))
    recorder.directories(V1_MOUNT)
    for path in (V1_MOUNT + b"/a/b/memory.stat", V1_MOUNT + b"/a/none"):
        with pytest.raises(FileNotFoundError):
            recorder.read(path)
    assert [answer.error for answer in recorder.answers[1:]] == ["ENODEV", "ENOENT"]


def test_an_unpacked_recording_is_a_root_too(tmp_path: Path) -> None:
    file = tmp_path / "x.tar.gz"
    record(ScriptedHost(v1_machine(GROUPS)), str(file), 1)
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path / "folder", filter="data")
    first, second = (choose_host(os.fsencode(place)) for place in (file, tmp_path / "folder"))
    assert isinstance(first, ReplayHost)
    assert isinstance(second, ReplayHost)
    assert _documents(first)[0]["memcg"] == _documents(second)[0]["memcg"]


def test_what_was_not_asked_then_is_not_there() -> None:
    host = ReplayHost("x", [])
    with pytest.raises(FileNotFoundError):
        host.read(b"/proc/cgroups")
    assert host.experiment("stat_sweep", dict) is None


SECRETS = (
    b"db-prod-17",
    b"acme.example",
    b"alice",
    b"bob.smith",
    b"10.20.30.40",
    b"fd00:1234::17",
    b"52:54:00:12:34:56",
    b"ops@acme.io",
    b"hunter2",
)


def _telling_machine() -> Machine:
    machine = v1_machine(
        {b"/alice-job": Cgroup(zombies=5, dead=DEAD), b"/net-10.20.30.40": Cgroup(), b"/user@1000.service": Cgroup()}
    )
    machine[b"/proc/sys/kernel/hostname"] = b"db-prod-17.acme.example\n"
    machine[b"/etc/passwd"] = (
        b"root:x:0:0::/root:/bin/sh\nalice:x:1000:1000:Alice:/home/alice:/bin/sh\nbs:x:1001:1:B:/home/bob.smith:\n"
    )
    mounts = machine[b"/proc/self/mountinfo"]
    mounts += b"50 22 0:50 / /home/alice/mnt rw - nfs4 10.20.30.40:/export rw,addr=fd00:1234::17\n"
    mounts += b"51 22 0:51 / /mnt/52:54:00:12:34:56 rw - cifs //db-prod-17/x rw,username=alice,password=hunter2\n"
    mounts += b"52 22 0:52 / /mnt/ops@acme.io rw - overlay overlay rw,lowerdir=/home/bob.smith/l\n"
    machine[b"/proc/self/mountinfo"] = machine[b"/proc/1/mountinfo"] = mounts
    return machine


def test_nothing_that_tells_who_or_where_is_left(tmp_path: Path) -> None:
    file = tmp_path / "x.tar.gz"
    recorded = record(ScriptedHost(_telling_machine()), str(file), 1)
    assert recorded.replays
    with tarfile.open(file) as archive:
        text = b"".join(member.read() for name in archive.getnames() if (member := archive.extractfile(name)))
    assert [secret for secret in SECRETS if secret in text] == []
    assert b"user@1000.service" in text
    assert b"/user1-job" in text or b"/user2-job" in text
    assert _documents(bundle.open_bundle(os.fsencode(file)))[0]["memcg"]["zombies"] == 5


def test_a_host_named_like_the_kernels_own_words_spoils_nothing(tmp_path: Path) -> None:
    machine = v1_machine(GROUPS)
    machine[b"/proc/sys/kernel/hostname"] = b"memory\n"
    machine[b"/etc/passwd"] = b"cgroup:x:1000:1000::/home/total_cache:\n"
    assert record(ScriptedHost(machine), str(tmp_path / "x.tar.gz"), 1).replays
    replayed = _documents(bundle.open_bundle(os.fsencode(tmp_path / "x.tar.gz")))[0]
    assert replayed["memcg"] == _documents(ScriptedHost(machine))[0]["memcg"]


def test_a_machine_that_takes_its_time_to_look_replays_to_the_same_answer(tmp_path: Path) -> None:
    """Seconds pass while it looks, on both clocks, and none while it waits: a recording has one clock that stands still then."""

    class Slow(ScriptedHost):
        def wall_clock(self) -> float:
            return 1_700_000_000.0 + self.monotonic()

    vmstat = b"".join(b"%s 0\n" % name for name in (b"pgscan_kswapd", b"pgscan_direct", b"pgscan_anon", b"pgscan_file"))
    files = {b"/proc/vmstat": vmstat, b"/proc/pressure/memory": b"some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"}
    host = Slow(v1_machine({b"/a": Cgroup()}) | files, seconds_per_read=0.05)
    recorded = record(host, str(tmp_path / "x.tar.gz"), 0)
    again = examine(bundle.open_bundle(os.fsencode(tmp_path / "x.tar.gz")), 0).diagnosis.findings
    assert {found.id: found.verdict for found in again}["reclaim-pressure"] is Verdict.ABSENT
    assert recorded.replays


def test_command_lines_are_never_kept() -> None:
    scrubber = Scrubber()
    assert scrubber.content(b"/proc/17/cmdline", b"mysql\0-psecret") == b""
    assert scrubber.content(b"/proc/17/environ", b"TOKEN=secret") == b""


def _archive(folder: Path, *members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    with tarfile.open(folder / "x.tar.gz", "w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return os.fsencode(folder / "x.tar.gz")


def _member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b"" if kind != tarfile.REGTYPE else b"x"


@pytest.mark.parametrize(
    ("member", "why"),
    [
        (_member("../../etc/cron.d/x"), "would leave the folder"),
        (_member("/etc/cron.d/x"), "would leave the folder"),
        (_member("a/../../x"), "would leave the folder"),
        (_member(MEMBER, tarfile.SYMTYPE, "/etc/shadow"), "is a link (to /etc/shadow)"),
        (_member("x", tarfile.LNKTYPE, "/etc/shadow"), "is a link"),
        (_member("x", tarfile.CHRTYPE), "is no plain file"),
        (_member("x", tarfile.FIFOTYPE), "is no plain file"),
        (_member("other"), f"there is no {MEMBER} in it"),
        (_member("evil\x1b[31m\n/.."), r"evil\x1b[31m\x0a"),
    ],
)
def test_an_archive_with_tricks_is_refused_with_the_reason(
    tmp_path: Path, member: tuple[tarfile.TarInfo, bytes], why: str
) -> None:
    with pytest.raises(UsageError) as caught:
        choose_host(_archive(tmp_path, member))
    assert why in caught.value.why
    assert caught.value.hint


def test_too_many_members_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="more than"):
        choose_host(_archive(tmp_path, *(_member(f"m{number}") for number in range(bundle.MOST_MEMBERS + 1))))


def test_a_member_that_would_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(ScriptedHost(v1_machine(GROUPS)), str(tmp_path / "x.tar.gz"), 1)
    monkeypatch.setattr(bundle, "MOST_BYTES", 100)
    with pytest.raises(UsageError, match="holds more than"):
        choose_host(os.fsencode(tmp_path / "x.tar.gz"))


def test_a_link_in_an_unpacked_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / MEMBER).symlink_to("/etc/shadow")
    with pytest.raises(UsageError, match="cannot be read"):
        choose_host(os.fsencode(tmp_path))


def test_a_damaged_archive_is_refused_wherever_it_breaks(tmp_path: Path) -> None:
    file = tmp_path / "x.tar.gz"
    record(ScriptedHost(v1_machine(GROUPS)), str(file), 1)
    whole = file.read_bytes()
    for cut in range(0, len(whole) - 1, max(len(whole) // 60, 1)):
        for broken in (whole[:cut], whole[:cut] + b"\xff" + whole[cut + 1 :]):
            file.write_bytes(broken)
            try:
                choose_host(os.fsencode(file))
            except UsageError as error:
                assert error.why


LINE = {"at": 0.0, "ask": "read", "path": "/proc/cgroups", "answer": "x"}


@pytest.mark.parametrize(
    "change",
    [
        {"at": -1}, {"at": "x"}, {"at": float("nan")}, {"at": True}, {"ask": "write"}, {"path": 7}, {"path": "\ud800"},
        {"answer": 7}, {"answer": "\ud800"}, {"errno": "EVIL"}, {"errno": 2}, {"ask": "subdirectories"}, {"ask": "inode"},
        {"ask": "directories", "answer": {"paths": []}}, {"ask": "wall_clock", "answer": 1e300}, {"ask": "experiment"},
        {"ask": "directories", "answer": {"paths": ["/"], "leaves": ["/"], "unreadable": [["/", "x"]]}},
        {"ask": "directories", "answer": {"paths": ["/"], "leaves": ["/"], "unreadable": [["/"]]}},
        {"ask": "experiment", "answer": {"seconds": float("inf")}}, {"ask": "experiment", "answer": {"n": 10**400}},
        {"ask": "experiment", "answer": {"seconds": [-float("inf"), float("nan")]}},
    ],
)  # fmt: skip
def test_a_line_of_another_form_is_refused_by_its_number(change: dict[str, Any]) -> None:
    lines = [next(encode(HEADER, [])).encode(), json.dumps({**LINE, **change}).encode()]
    with pytest.raises(UsageError, match="line 2 is not part of a recording"):
        decode(lines, "x")


@given(st.lists(st.binary(max_size=80), max_size=4))
def test_no_lines_at_all_make_a_recording(lines: list[bytes]) -> None:
    with pytest.raises(UsageError):
        decode(lines, "x")


@given(
    st.dictionaries(
        st.sampled_from(["seconds", "cgroups", "cgroups_read", "slowest_file", "slowest_seconds", "x"]),
        st.none() | st.integers() | st.text(),
    )
)
def test_a_strange_outcome_of_an_experiment_is_a_gap(outcome: dict[str, Any]) -> None:
    recorder = RecordingHost(ScriptedHost(v1_machine(GROUPS)), Scrubber(keeps_names=True))
    scan(recorder)
    answers = [
        answer if answer.operation != "experiment" else answer._replace(value=outcome) for answer in recorder.answers
    ]
    assert "sweep_seconds" in json.dumps(_documents(ReplayHost("x", answers)))


@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=50))))
def test_any_bytes_survive(pairs: list[tuple[bytes, bytes]]) -> None:
    answers = [Answer(0.0, "read", path, content.decode("utf-8", "surrogateescape")) for path, content in pairs]
    _, again = decode([line.encode() for line in encode(HEADER, answers)], "x")
    assert again == answers


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ActionUndoneError, match="no space left"):
        record(ScriptedHost(v1_machine(GROUPS)), str(tmp_path / "x.tar.gz"), 1)
    assert list(tmp_path.iterdir()) == []
