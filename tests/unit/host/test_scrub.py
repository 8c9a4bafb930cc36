# SPDX-License-Identifier: Apache-2.0
"""What may stay is listed; every other word is a name, and its shape is all that is left of it."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import Cgroup, Machine, ScriptedHost, Use, v1_machine
from tools.write_own_words import own_words

from zombiescope.analysis.maker import maker_of
from zombiescope.errors import ActionUndoneError
from zombiescope.host.bundle import open_bundle, pack
from zombiescope.host.known_names import KnownNames, kept_words, may_stay, read_known_names, telling
from zombiescope.host.recorder import find_leaks
from zombiescope.host.recording import Answer, Header, text_of
from zombiescope.host.scrub import Scrubber, is_kernels_own
from zombiescope.pipeline.record import record
from zombiescope.pipeline.scan import scan

POD = b"0a1b2c3d-1111-2222-3333-0123456789ab"
LONG = b"3f9a" * 16
KNOWN = KnownNames(
    hosts=(b"ip-10-0-0-7", b"web.acme.test"),
    domains=(b"corp.acme.test",),
    users=(b"alice", b"bob.smith"),
    programs=(b"qzv_job",),
)


def test_every_word_of_our_own_strings_may_stay() -> None:
    """A key or a path that a reader asks for would not be found again in a replay."""
    missing = sorted(word for word in own_words() if word.encode() not in kept_words())
    assert missing == [], "tools/write_own_words.py"


@pytest.mark.parametrize(
    "name",
    [
        b"/system.slice/acme_billing.service", b"/system.slice/acme-job@17.service", b"/acme_tenant/run-1234",
        b"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + POD.replace(b"-", b"_")
        + b".slice/cri-containerd-" + LONG + b".scope",
        b"/kubepods/besteffort/pod" + POD + b"/" + LONG, b"/docker/" + LONG, b"/user.slice/user-1000.slice/acme.scope",
        b"/system.slice/acme\\x2dweb.service", b"/ecs/acmecluster/" + b"0f" * 16 + b"-1234567890",
        b"/acme/deadbeef01/x17", b"/acme1a2b/s3cr3t",
        b"/run-r0a1b2c3d4e5f60718293a4b5c6d7e8f9.scope",
    ],
)  # fmt: skip
def test_a_maker_keeps_its_shape(name: bytes) -> None:
    scrubber = Scrubber()
    clean = scrubber.path(name)
    before, after = maker_of(name), maker_of(clean)
    assert before.split(":")[0] == after.split(":")[0]
    assert before.count("*") == after.count("*")
    assert b"acme" not in clean
    assert POD not in clean.replace(b"_", b"-")
    assert LONG not in clean
    assert scrubber.outcome("remains", before) == after or before.startswith("path:"), (
        "told the same by its maker's name"
    )


def test_siblings_fold_to_one_maker_as_before() -> None:
    scrubber = Scrubber()
    assert len({maker_of(scrubber.path(b"/acme-%d/job%da" % (number, number))) for number in range(50)}) == 1
    assert len({scrubber.path(b"/acme-%d/job%da" % (number, number)) for number in range(50)}) == 50


@given(st.lists(st.binary(min_size=1, max_size=24), min_size=2, max_size=8, unique=True))
def test_different_names_stay_different(names: list[bytes]) -> None:
    scrubber = Scrubber(KNOWN)
    assert len({scrubber.path(b"/" + name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (b"/alice_job", b"alice"), (b"job@alice.service", b"alice"), (b"/home/mark/x", b"mark"), (b"/x-ip-10-0-0-7", b"10-0-0-7"),
        (b"db.corp.acme.test", b"acme"), (b"s3cr3t", b"cr"), (b"bob.smith", b"smith"), (b"ops@acme.io", b"acme"),
        (b"gr\xc3\xbcn", b"\xc3"),
    ],
)  # fmt: skip
def test_a_name_is_found_wherever_it_stands(text: bytes, secret: bytes) -> None:
    assert secret not in Scrubber(KNOWN).text(text)


def test_process_names_go_and_their_numbers_stay() -> None:
    clean = Scrubber().content(b"/proc/17/stat", b"17 (qzv_job) x)) S 1 17 17\n")
    assert b"qzv" not in clean
    assert clean.startswith(b"17 (")
    assert clean.endswith(b" x)) S 1 17 17\n")
    kernels = b"9 (ksoftirqd/0) S 2 0 0\n"
    assert Scrubber().content(b"/proc/9/stat", kernels) == kernels


def test_keys_are_scrubbed_too() -> None:
    told = Scrubber().outcome("nic_counters", {"acmebr0": {"tx_timeouts": 3}})
    assert list(told.values()) == [{"tx_timeouts": 3}]
    assert "acme" not in next(iter(told))


def test_names_of_units_stay_where_asked_for_and_those_of_people_do_not() -> None:
    scrubber = Scrubber(KNOWN, keeps_names=True)
    scrubber.learn([b"/customer_billing.service", b"/job@alice.service", b"/acme_x.service"])
    assert scrubber.path(b"/customer_billing.service") == b"/customer_billing.service"
    assert b"acme" not in scrubber.path(b"/acme_x.service"), "a word of the domain's"
    assert b"alice" not in scrubber.path(b"/job@alice.service")
    assert b"qzv" not in scrubber.path(b"qzv_job")


def _machine() -> Machine:
    machine = v1_machine({b"/acme_tenant": Cgroup(zombies=3, dead=Use(file=4096))})
    machine[b"/proc/sys/kernel/hostname"] = b"qzvhost\n"
    machine[b"/proc/77/comm"], machine[b"/proc/77/cmdline"] = b"qzv_comm\n", b"/opt/qzv_title\0--password=x\0"
    machine[b"/etc/hosts"] = b"127.0.0.1 localhost\n10.9.8.7 qzvhost.acme.test qzvhost # x\n"
    machine[b"/etc/resolv.conf"] = b"search inner.acme.test\nnameserver 10.9.8.53\n"
    machine[b"/etc/passwd"] = b"root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/al:/bin/sh\n"
    machine[b"/etc/group"] = b"staffx:x:1001:\nadm:x:4:\n"
    return machine


def test_a_host_knows_many_names() -> None:
    known = read_known_names(ScriptedHost(_machine()))
    assert {b"qzvhost", b"qzvhost.acme.test"} <= set(known.hosts)
    assert set(known.domains) == {b"acme.test", b"inner.acme.test"}
    assert set(known.users) == {b"alice", b"al", b"staffx"}
    assert {b"qzv_comm", b"qzv_title"} <= set(known.programs)
    assert b"/acme_tenant" in known.cgroups
    assert set(known.addresses) == {b"10.9.8.7", b"10.9.8.53"}


@pytest.mark.parametrize(
    "answer",
    [
        Answer(0.0, "read", b"/proc/7/stat", "7 (qzv_comm) S 1"),
        Answer(0.0, "read", b"/sys/fs/cgroup/memory/acme_tenant/memory.stat", ""),
        Answer(0.0, "experiment", b"x", {"qzv_title": 1}),
        Answer(0.0, "experiment", b"x", [["a", {"b": "of alice\n"}]]),
        Answer(0.0, "read", b"/x", "to 10.9.8.7."),
        Answer(0.0, "read", b"/x", "at inner.acme.test"),
    ],
)
def test_a_name_that_is_left_is_found(answer: Answer) -> None:
    known = read_known_names(ScriptedHost(_machine()))
    leaks = find_leaks(pack(Header("0", "this host"), [answer]), known, kept_words())
    assert leaks
    assert leaks[0].where == "line 2 of recording.jsonl"


def test_what_the_kernel_alone_can_write_is_no_leak() -> None:
    kernels = Answer(0.0, "read", b"/proc/vmstat", "alice 7\n")
    assert find_leaks(pack(Header("0", "this host"), [kernels]), KNOWN, kept_words()) == []


def test_a_recording_that_still_has_a_name_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the scrubber overlooks: here, everything."""
    monkeypatch.setattr(Scrubber, "text", lambda _, text: text)
    with pytest.raises(ActionUndoneError, match=r"tenant|acme") as caught:
        record(ScriptedHost(_machine()), str(tmp_path / "x.tar.gz"), 0)
    assert "nothing was written" in caught.value.why
    assert "--keep-names" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_scrubbed_machine_tells_the_same(tmp_path: Path) -> None:
    file = tmp_path / "x.tar.gz"
    assert record(ScriptedHost(_machine()), str(file), 0).replays
    live, again = scan(ScriptedHost(_machine())), scan(open_bundle(bytes(file)))
    assert live.observation.scan.population == again.observation.scan.population
    assert [(found.id, found.verdict) for found in live.diagnosis.findings] == [
        (found.id, found.verdict) for found in again.diagnosis.findings
    ]
    with tarfile.open(file) as archive:
        text = text_of(b"".join(part.read() for name in archive.getnames() if (part := archive.extractfile(name))))
    assert [secret for secret in ("acme", "qzv", "alice", "10.9.8") if secret in text] == []


def test_numbers_and_listed_words_may_stay() -> None:
    kept = kept_words()
    assert [word for word in (b"1000", b"x", b"z17", b"ext4", b"Docker", b"kubelet") if not may_stay(word, kept)] == []
    assert telling(b"io qz acme_7 acme8", kept) == {b"acme"}, "two letters tell nobody apart"


def test_an_id_is_told_by_the_whole_of_it() -> None:
    """Two ids may begin with the same letters by chance: a recording of a recording would be refused for that."""
    assert telling(b"cab123456 x-dec99817", kept_words()) == {b"cab123456", b"dec99817"}


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        (b"/sys/fs/cgroup/memory/a/memory.stat", True),
        (b"/sys/fs/cgroup/cgroup.procs", True),
        (b"/cgroup/memory/a/memory.stat", True),
        (b"/etc/systemd/system/a.service.d/memory.conf", False),
        (b"/etc/cgroup/memory.conf", False),
    ],
)
def test_only_what_is_in_a_cgroup_hierarchy_is_the_kernels(path: bytes, is_own: bool) -> None:
    assert is_kernels_own(path) == is_own
