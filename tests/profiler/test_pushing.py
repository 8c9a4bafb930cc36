# SPDX-License-Identifier: Apache-2.0
"""`profile push`: what a server gets, read by other decoders than ours; and every way in which it may refuse."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2
from tests.profiler.perf_files import TOOLS, small_capture
from tests.profiler.profile_server import MESSAGES, Asked, Server, pprof_stacks, profile_server, push_request

from zombiescope import __version__
from zombiescope.cli.main import main
from zombiescope.host import web_server
from zombiescope.profiler.files import store
from zombiescope.profiler.files.ring import mark_of
from zombiescope.profiler.formats.capture_file import encode
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.pushing import slices
from zombiescope.profiler.stacks.capture import Capture, Clock, Selection, row_numbers

WALL = 1_700_000_000
BUSY = {
    ("reader", "[unknown]"): 100,
    ("reader", "[unknown]", "do_syscall_64", "vfs_read"): 100,
    ("swapper", "net_rx_action"): 1,
}
REAL_CLIENT = json.loads((Path(__file__).parent / "pyroscope_io_request.json").read_text())


def capture_at(wall: float, host: str = "node-7") -> Capture:
    capture = import_perf(small_capture().file(), TOOLS, "small")
    clock = Clock(round(wall * 1e9), int(capture.time[0]))
    return replace(capture, about=capture.about._replace(clock=clock, host=host))


def put(folder: Path, name: str, capture: Capture, *, serial: int = 0) -> None:
    if serial:
        mark = mark_of(os.fsencode(folder), "service")
        capture = replace(capture, about=capture.about._replace(ring=mark, serial=serial))
    store.save(os.fsencode(folder), name.encode(), encode(capture))


@pytest.fixture(autouse=True)
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody waits here; how long it would have been is told."""
    found: list[float] = []
    monkeypatch.setattr(web_server.patiently, "__defaults__", (found.append,))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "store", "one", capture_at(WALL))
    return tmp_path / "store"


@pytest.fixture
def server() -> Iterator[Server]:
    with profile_server() as found:
        yield found


def push(folder: Path, to: str, *words: str, form: str = "otlp") -> int:
    return main(["profile", "push", "--to", to, "--as", form, *words, "--captures", str(folder)])


def otlp_samples(asked: list[Asked]) -> tuple[Counter[tuple[str, ...]], Counter[int]]:
    """Stacks and cores, by OpenTelemetry's own messages."""
    stacks: Counter[tuple[str, ...]] = Counter()
    cores: Counter[int] = Counter()
    for each in asked:
        data = profiles_service_pb2.ExportProfilesServiceRequest.FromString(gzip.decompress(each.body))
        table, words = data.dictionary, data.dictionary.string_table
        for sample in data.resource_profiles[0].scope_profiles[0].profiles[0].samples:
            places = reversed(table.stack_table[sample.stack_index].location_indices)
            lines = [table.location_table[place].lines[0] for place in places]
            names = tuple(words[table.function_table[line.function_index].name_strindex] for line in lines)
            stacks[names] += len(sample.timestamps_unix_nano)
            (attribute,) = [table.attribute_table[number] for number in sample.attribute_indices]
            cores[attribute.value.int_value] += len(sample.timestamps_unix_nano)
    return stacks, cores


def test_a_collector_gets_the_whole_capture_in_slices(
    folder: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert push(folder, server.url, "--slice", "0.5", "--label", "zone=c", "--service", "shop") == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{server.url} accepted 1 capture: 4 profiles, 201 samples, ")
    assert "zombiescope profile flame latest" in last
    assert {each.path for each in server.asked} == {"/v1development/profiles"}
    assert {each.headers["content-type"] for each in server.asked} == {"application/x-protobuf"}
    stacks, cores = otlp_samples(server.asked)
    assert stacks == BUSY
    assert cores == {0: 1, 1: 200}
    ids = set()
    for number, each in enumerate(server.asked):
        data = profiles_service_pb2.ExportProfilesServiceRequest.FromString(gzip.decompress(each.body))
        resource = {one.key: one.value.string_value for one in data.resource_profiles[0].resource.attributes}
        assert resource == {"service.name": "shop", "host.name": "node-7", "zone": "c"}
        scope = data.resource_profiles[0].scope_profiles[0]
        assert (scope.scope.name, scope.scope.version) == ("zombiescope", __version__)
        (profile,) = scope.profiles
        assert profile.time_unix_nano == WALL * 10**9 + number * 500_000_000
        assert profile.duration_nano <= 500_000_000
        times = [time for sample in profile.samples for time in sample.timestamps_unix_nano]
        assert all(0 <= time - profile.time_unix_nano < 500_000_000 for time in times)
        assert len(profile.profile_id) == 16
        ids.add(profile.profile_id)
    assert len(ids) == 4


def test_a_slice_has_the_same_number_each_time_it_is_sent(folder: Path, server: Server) -> None:
    assert push(folder, server.url) == 0
    assert push(folder, server.url) == 0
    first, second = server.asked
    assert first.body == second.body


def test_pyroscope_gets_what_its_own_client_sends(folder: Path, server: Server) -> None:
    """The recorded request of the real client is the pattern: the same place, the same kinds of fields."""
    words = ("--label", "zone=c", "--service", "shop", "--slice", "1", "--tenant", "t1")
    assert push(folder, server.url, *words, form="pyroscope") == 0
    real_body = base64.b64decode(REAL_CLIENT["body_base64"])
    real, ours = push_request(real_body), push_request(server.asked[0].body)
    assert {each.path for each in server.asked} == {REAL_CLIENT["path"]}
    for header in ("content-type", "content-encoding", "x-scope-orgid"):
        assert server.asked[0].headers[header] == REAL_CLIENT["headers"][header]
    assert (len(real.series), len(ours.series)) == (1, 1)
    theirs, mine = ({one.name: one.value for one in each.series[0].labels} for each in (real, ours))
    for label in ("__name__", "service_name", "zone"):
        assert mine[label] == theirs[label]
    assert set(theirs) - set(mine) == {"process.runtime.name", "process.runtime.version"}
    assert mine["hostname"] == "node-7"
    (raw,) = ours.series[0].samples
    assert len(raw.ID) == len(real.series[0].samples[0].ID)
    profile, pattern = (MESSAGES["Profile"].FromString(each.series[0].samples[0].raw_profile) for each in (ours, real))
    kinds = [
        [(one.string_table[kind.type], one.string_table[kind.unit]) for kind in one.sample_type]
        for one in (profile, pattern)
    ]
    assert kinds == [[("samples", "count"), ("cpu", "nanoseconds")], [("cpu", "nanoseconds")]]
    for one in (profile, pattern):
        assert one.string_table[one.period_type.type] == "cpu"
        assert one.period > 0 and one.time_nanos > 1.6e18 and one.duration_nanos > 0
    assert profile.time_nanos == WALL * 10**9
    found: Counter[tuple[str, ...]] = Counter()
    for each in server.asked:
        for stack, (count, lasted) in pprof_stacks(push_request(each.body).series[0].samples[0].raw_profile).items():
            found[stack] += count
            assert lasted == count * profile.period
    assert found == BUSY


def test_nothing_is_sent_of_process_ids_and_cgroups(folder: Path, server: Server) -> None:
    capture = capture_at(WALL)
    cgroup = np.ones(len(capture), np.uint32)
    pid = np.full(len(capture), 3_735_928_559, np.uint32)
    put(folder, "two", replace(capture, cgroup=cgroup, cgroups=("", "/secret.slice/customer"), pid=pid, tid=pid))
    for form in ("otlp", "pyroscope"):
        assert push(folder, server.url, "two", form=form) == 0
    plain = gzip.decompress(server.asked[0].body) + push_request(server.asked[1].body).SerializeToString()
    assert b"secret" not in plain and b"customer" not in plain
    assert (3_735_928_559).to_bytes(4, "little") not in plain
    assert b"\xef\xfd\xb6\xf5\x0d" not in plain, "nor as a varint"


def test_a_range_and_filters_choose(folder: Path, server: Server) -> None:
    assert push(folder, server.url, "one@1..", "--kernel", "--core", "1") == 0
    stacks, _ = otlp_samples(server.asked)
    assert stacks == {("reader", "[unknown]", "do_syscall_64", "vfs_read"): 100}


def test_what_is_too_large_goes_in_halves(folder: Path, server: Server) -> None:
    assert push(folder, server.url) == 0
    server.most_bytes = len(server.asked[0].body) * 2 // 3
    server.asked.clear()
    assert push(folder, server.url) == 0
    accepted = [each for each in server.asked if len(each.body) <= server.most_bytes]
    assert 1 < len(accepted) < len(server.asked)
    assert otlp_samples(accepted)[0] == BUSY


def test_what_is_too_large_however_short_is_said(
    folder: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.most_bytes = 10
    assert push(folder, server.url) == 3
    told = capsys.readouterr().err
    assert "413" in told and "--kernel" in told
    assert len(server.asked) < 20


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((401, b"", {}), ("it answers 401", "--token-file")),
        ((403, b"", {}), ("it answers 403", "--tenant")),
        (
            (404, b"404 page not found\n", {"Content-Type": "text/plain"}),
            ("404 page not found", "is the address right?"),
        ),
        ((400, b'{"code":"invalid_argument","message":"no labels\\u001b[2J"}', {}), ("no labels", "stays")),
        ((500, b"\xff\xfe\x00junk", {}), ("it answers 500", "sends it again")),
        ((200, b"<html>log in</html>", {"Content-Type": "text/html"}), ("a web page", "is the address right?")),
        (
            (307, b"", {"Location": "http://elsewhere.example/\x1b[2J"}),
            ("elsewhere.example", "redirect is not followed"),
        ),
        ((302, b"", {}), ("redirect is not followed",)),
    ],
)
def test_a_refusal_is_said_once_with_a_way_on(
    answer: tuple[int, bytes, dict[str, str]],
    words: tuple[str, ...],
    folder: Path,
    server: Server,
    capsys: pytest.CaptureFixture[str],
    waited: list[float],
) -> None:
    server.answers = [answer]
    assert push(folder, server.url, form="otlp") == 3
    told = capsys.readouterr().err
    for word in words:
        assert word in told.replace("\n", " ")
    assert "\x1b" not in told
    assert (len(server.asked), waited) == (1, []), "it would be refused again"
    assert [entry.name for entry in store.entries(os.fsencode(folder))] == ["one"]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_server_that_is_busy_is_tried_again(status: int, folder: Path, server: Server, waited: list[float]) -> None:
    server.answers = [(status, b"", {}), (status, b"", {"Retry-After": "7"}), (200, b"", {})]
    assert push(folder, server.url) == 0
    assert len(server.asked) == 3
    assert len({each.body for each in server.asked}) == 1
    assert 0.5 <= waited[0] <= 1.0
    assert waited[1] == 7


def test_one_that_stays_busy_is_left_after_four_tries(
    folder: Path, server: Server, capsys: pytest.CaptureFixture[str], waited: list[float]
) -> None:
    server.answers = [(503, b"", {"Retry-After": "100000"})]
    assert push(folder, server.url) == 3
    assert "it answers 503" in capsys.readouterr().err
    assert (len(server.asked), waited) == (4, [30.0] * 3), "however long it asks to wait"


def test_nobody_there(folder: Path, capsys: pytest.CaptureFixture[str], waited: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert push(folder, f"http://127.0.0.1:{port}") == 3
    told = capsys.readouterr().err
    assert "connection refused (tried 4 times)" in told and "is the address right" in told
    assert len(waited) == 3
    assert waited[0] < waited[1] < waited[2] or max(waited) <= 4


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_server_that_never_comes_to_an_end(
    beginning: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte by byte: no single wait is long."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            while not ended.is_set():
                try:
                    connection, _ = listening.accept()
                    with connection:
                        connection.sendall(beginning)
                        while not ended.wait(0.02):
                            connection.sendall(b"x" if beginning else b"")
                            if not beginning and not connection.recv(65536):
                                break
                except OSError:
                    continue

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        begun = time.monotonic()
        assert push(folder, f"http://127.0.0.1:{listening.getsockname()[1]}", "--timeout", "0.2") == 3
        assert time.monotonic() - begun < 30
        ended.set()
    told = capsys.readouterr().err
    assert "did not answer within" in told and "tried 4 times" in told


def test_a_collector_that_takes_only_a_part_is_no_success(
    folder: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = profiles_service_pb2.ExportProfilesServiceResponse()
    answer.partial_success.rejected_profiles = 1
    answer.partial_success.error_message = "no room"
    server.answers = [(200, answer.SerializeToString(), {"Content-Type": "application/x-protobuf"})]
    assert push(folder, server.url) == 3
    assert "left out 1 of the profiles: no room" in capsys.readouterr().err


def ring_of(folder: Path, many: int) -> None:
    for number in range(1, many + 1):
        put(folder, f"2026010{number}T000000Z", capture_at(WALL + 100 * number), serial=number)


def test_a_ring_is_sent_once_and_then_what_is_new(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    ring_of(tmp_path, 2)
    put(tmp_path, "imported", capture_at(WALL))
    assert push(tmp_path, server.url, "--ring", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "zombiescope.profile-push/1"
    assert [one["name"] for one in document["captures"]] == ["20260101T000000Z", "20260102T000000Z"]
    assert [one["samples"] for one in document["captures"]] == [201, 201]
    assert sum(one["bytes"] for one in document["captures"]) == sum(len(each.body) for each in server.asked)
    assert push(tmp_path, server.url, "--ring") == 0
    assert "all 2 captures were sent to" in capsys.readouterr().out
    ring_of(tmp_path, 2)  # written anew: another capture under the name
    put(tmp_path, "20260103T000000Z", capture_at(WALL + 300), serial=3)
    server.asked.clear()
    os.utime(tmp_path / "20260101T000000Z.zscap", (1, 1))
    assert push(tmp_path, server.url, "--ring") == 0
    assert len(server.asked) in (2, 3)
    server.asked.clear()
    assert push(tmp_path, server.url, "--ring", "--again") == 0
    assert len(server.asked) == 3
    assert push(tmp_path, server.url, "--ring", form="pyroscope") == 0
    assert len(server.asked) == 6, "another form is another place"


def test_what_was_accepted_before_a_failure_is_not_sent_again(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    ring_of(tmp_path, 3)
    server.answers = [(200, b"", {}), (500, b"", {})]
    assert push(tmp_path, server.url, "--ring") == 3
    assert "1 of 3 captures were accepted, the same command sends the rest" in capsys.readouterr().err.replace(
        "\n", " "
    )
    server.answers = [(200, b"", {})]
    assert push(tmp_path, server.url, "--ring") == 0
    assert "accepted 2 captures" in capsys.readouterr().out


def test_an_empty_ring_sends_nothing(tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert push(tmp_path, server.url, "--ring") == 0
    assert "nothing" in capsys.readouterr().out
    assert server.asked == []


def test_a_capture_that_does_not_say_when_is_refused(
    folder: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    put(folder, "when", import_perf(small_capture().file(), TOOLS, "small"))
    assert push(folder, server.url, "when") == 3
    assert "does not say when it was taken" in capsys.readouterr().err
    assert server.asked == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--label", "zone"), "NAME=VALUE"),
        (("--label", "__name__=x"), "NAME=VALUE"),
        (("--label", "a=b\nc"), "NAME=VALUE"),
        (("--label", "9a=b"), "NAME=VALUE"),
        (("--ring", "one"), "--ring takes every capture"),
        (("one@2..1",), "it ends before it begins"),
        (("--again",), "always sent"),
        (("--kernel", "--user"), "no sample is both"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    words: tuple[str, ...], why: str, folder: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert push(folder, server.url, *words) == 2
    assert why in capsys.readouterr().err.replace("\n", " ")
    assert server.asked == []


@pytest.mark.parametrize("url", ["ftp://a", "http://", "http://u:p@h", "http://h:x", "http://[", "http://h?x=1"])
def test_a_wrong_address_is_refused(url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert push(folder, url) == 2
    assert "cannot use the address" in capsys.readouterr().err


def test_a_token_goes_along_and_is_never_shown(
    folder: Path, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("glc_abcdef\n")
    token.chmod(0o600)
    assert push(folder, server.url, "--token-file", str(token)) == 0
    assert server.asked[0].headers["authorization"] == "Bearer glc_abcdef"
    server.answers = [(401, b"", {})]
    assert push(folder, server.url, "--token-file", str(token)) == 3
    assert push(folder, "http://198.51.100.7:4040", "--token-file", str(token)) == 2
    told = capsys.readouterr()
    assert "glc_abcdef" not in told.out + told.err
    assert "the address is not https" in told.err
    token.chmod(0o644)
    assert push(folder, server.url, "--token-file", str(token)) == 2
    for wrong in ("", "a b", "a\nb", "\x1b[2J"):
        token.write_text(wrong)
        token.chmod(0o600)
        assert push(folder, server.url, "--token-file", str(token)) == 2


def test_https_is_believed_by_the_certificate_that_is_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl is installed to make a certificate with")
    key, certificate, token = (str(tmp_path / name) for name in ("key.pem", "ca.pem", "token"))
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=profiles", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    Path(token).write_text("glc_abcdef")
    Path(token).chmod(0o600)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with profile_server(context) as server:
        assert push(folder, server.url, "--token-file", token) == 3
        told = capsys.readouterr().err
        assert "certificate" in told and "--ca-file" in told and "tried" not in told
        assert server.asked == [], "nothing is sent to whom nobody knows"
        assert push(folder, server.url, "--token-file", token, "--ca-file", certificate) == 0
        assert server.asked[0].headers["authorization"] == "Bearer glc_abcdef"
    assert push(folder, server.url, "--ca-file", str(tmp_path / "none.pem")) == 2


def test_a_proxy_of_the_environment_is_not_asked(folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert push(folder, server.url) == 0
    assert len(server.asked) == 1


@pytest.mark.parametrize("seconds", [0.1, 0.37, 1, 15])
def test_every_sample_is_in_one_slice(seconds: float) -> None:
    capture = capture_at(WALL)
    for chosen in (Selection(), Selection(0.3, 1.234), Selection(with_idle=True), Selection(begin=1.99)):
        wanted = row_numbers(capture, chosen)
        found = [row_numbers(capture, each) for each in slices(capture, chosen, seconds)]
        assert np.concatenate(found).tolist() == wanted.tolist()
        assert all(len(each) for each in found)


def test_a_capture_of_a_thousand_years_has_few_slices() -> None:
    capture = capture_at(WALL)
    time_of = capture.time.copy()
    time_of[-1] = 1 << 61
    assert len(slices(replace(capture, time=time_of), Selection(with_idle=True), 0.1)) < 30
