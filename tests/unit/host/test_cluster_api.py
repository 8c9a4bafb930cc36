# SPDX-License-Identifier: Apache-2.0
"""An API server that nobody should trust, behind real TLS: wrong certificates, answers byte by byte, cut, endless, in no form at
all. Whatever it does is said in words and in time, and a token goes to nobody who cannot be believed."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import NamedTuple

import pytest

from zombiescope.errors import ObservationError
from zombiescope.host import cluster_api
from zombiescope.host.cluster_api import Api, Sending, fetch, send

PATH = "/api/v1/nodes/n1/status"


class Speaking(NamedTuple):
    """One connection of the server; it ends its answer when the test is over."""

    socket: ssl.SSLSocket
    over: threading.Event

    def say(self, content: bytes) -> None:
        self.socket.sendall(content)


Answering = Callable[[Speaking], None]


class Certified(NamedTuple):
    account: Path
    good: Path
    of_another: Path
    expired: Path


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    """An authority as a pod has it, and what it signed."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl is installed to make a certificate with")
    folder = tmp_path_factory.mktemp("account")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", *curve, "-subj", "/CN=kube-ca", "-days", "2", "-keyout", "ca.key", "-out", "ca.crt")
    for name, who, days in (
        ("good", "IP:127.0.0.1", "2"),
        ("another", "DNS:b.example", "2"),
        ("late", "IP:127.0.0.1", "-1"),
    ):
        (folder / "names").write_text(f"subjectAltName={who}\n")
        openssl("req", *curve, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", days, "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.crt")
        (folder / f"{name}.pem").write_bytes(
            (folder / f"{name}.crt").read_bytes() + (folder / f"{name}.key").read_bytes()
        )
    (folder / "token").write_text("first\n")
    return Certified(folder, *(folder / f"{name}.pem" for name in ("good", "another", "late")))


@contextmanager
def serving(answer: Answering, certificate: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Its address, and what it was asked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    asked: list[bytes] = []
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=speak, args=(peer,), daemon=True).start()

    def speak(peer: socket.socket) -> None:
        try:
            with context.wrap_socket(peer, server_side=True) as speaking:
                speaking.settimeout(10)
                asked.append(request_of(speaking))
                answer(Speaking(speaking, over))
        except OSError:
            pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{listening.getsockname()[1]}", asked
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


def request_of(speaking: socket.socket) -> bytes:
    said = b""
    while b"\r\n\r\n" not in said:
        part = speaking.recv(65536)
        said += part
        if not part:
            return said
    head, _, body = said.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += speaking.recv(65536)
    return head + b"\r\n\r\n" + body


def saying(status: int, body: bytes, **headers: str) -> Answering:
    lines = [
        f"HTTP/1.1 {status} X",
        f"Content-Length: {len(body)}",
        *(f"{name}: {text}" for name, text in headers.items()),
    ]
    return lambda speaking: speaking.say("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def only(whole: bytes) -> Answering:
    return lambda speaking: speaking.say(whole)


def for_ever(start: bytes, piece: bytes, pause: float = 0.0) -> Answering:
    def answer(speaking: Speaking) -> None:
        speaking.say(start)
        while not speaking.over.wait(pause):
            speaking.say(piece)

    return answer


def told(address: str, certified: Certified) -> cluster_api.ApiOutcome:
    return send(
        Api(address, str(certified.account)), [Sending("PATCH", PATH, "application/json", lambda at: {"at": at})]
    )


GARBLED: dict[str, tuple[Answering, str]] = {
    "html": (saying(200, b"<html>sign in"), "no JSON"),
    "nothing": (saying(204, b""), "no JSON"),
    "deep": (saying(200, b"[" * 100_000), "no JSON"),
    "redirect": (saying(302, b"", Location="https://192.0.2.1/"), "status 302"),
    "words": (saying(409, json.dumps({"message": "the object \x1b[31m was modified"}).encode()), "the object"),
    "types": (saying(422, b'{"message": [], "status": {}}'), "[]"),
    "html of an error": (saying(500, b"<html>"), "status 500"),
    "dropped": (only(b""), "hung up"),
    "no HTTP": (only(b"\xff" * 500 + b"\r\n"), "not HTTP"),
    "half a line": (only(b"HTTP/1.1 20"), "not HTTP"),
    "headers without end": (for_ever(b"HTTP/1.1 200 X\r\n", b"X: y\r\n"), "100 headers"),
    "a bad piece": (only(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"), "hung up"),
}
SLOW: dict[str, Answering] = {
    "says nothing": for_ever(b"", b"", 0.05),
    "body by bytes": for_ever(b"HTTP/1.1 200 X\r\nContent-Length: 100000\r\n\r\n", b" ", 0.05),
    "head by bytes": for_ever(b"HTTP/1.1 200 X\r\nX: ", b"y", 0.05),
    "go on, go on": for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01),
}


@pytest.mark.parametrize("how", GARBLED)
def test_what_it_answers_wrongly_is_said(certified: Certified, how: str) -> None:
    answer, why = GARBLED[how]
    with serving(answer, certified.good) as (address, asked):
        outcome = told(address, certified)
        with pytest.raises(ObservationError) as raised:
            fetch(Api(address, str(certified.account)), "/api/v1/pods")
    assert (outcome.done, len(asked)) == (0, 2)
    assert why in outcome.why
    assert "\x1b" not in outcome.why + raised.value.why


@pytest.mark.parametrize("body", [b"null", b"[]", b'"x"', b"3"])
def test_what_is_no_object_is_no_yes(certified: Certified, body: bytes) -> None:
    with serving(saying(200, body), certified.good) as (address, _):
        assert told(address, certified).done == 0


@pytest.mark.parametrize("how", SLOW)
def test_one_that_takes_its_time_is_left(certified: Certified, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(cluster_api, "_SECONDS", 0.5)
    monkeypatch.setattr(cluster_api, "_LIST_SECONDS", 0.5)
    with serving(SLOW[how], certified.good) as (address, _):
        assert "did not answer within" in told(address, certified).why
        with pytest.raises(ObservationError) as raised:
            fetch(Api(address, str(certified.account)), "/api/v1/pods")
    assert "did not answer within" in raised.value.why


@pytest.mark.parametrize("which", ["of_another", "expired"])
def test_nobody_who_cannot_prove_who_it_is_gets_a_token(certified: Certified, which: str) -> None:
    with serving(saying(200, b"{}"), getattr(certified, which)) as (address, asked):
        outcome = told(address, certified)
    assert "certificate" in outcome.why
    assert asked == []


def test_without_its_authority_nothing_is_sent(certified: Certified, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    shutil.copy(certified.account / "another.crt", tmp_path / "ca.crt")
    with serving(saying(200, b"{}"), certified.good) as (address, asked):
        assert "certificate" in told(address, certified._replace(account=tmp_path)).why
        (tmp_path / "ca.crt").write_bytes(b"garbage")
        assert "ca.crt cannot be used" in told(address, certified._replace(account=tmp_path)).why
    assert asked == []


def test_a_token_that_was_replaced_is_read_again(certified: Certified) -> None:
    with serving(saying(200, b"{}"), certified.good) as (address, asked):
        for token in ("first", "second"):
            (certified.account / "token").write_text(token)
            assert told(address, certified).done == 1
    assert [f"Bearer {token}".encode() in each for token, each in zip(("first", "second"), asked, strict=True)] == [
        True
    ] * 2


@pytest.mark.parametrize("ahead", [3600.0, -86400.0])
def test_a_time_is_the_servers_where_clocks_differ(certified: Certified, ahead: float) -> None:
    with serving(saying(200, b"{}", Date=formatdate(time.time() + ahead, usegmt=True)), certified.good) as (
        address,
        asked,
    ):
        outcome = told(address, certified)
    said = json.loads(asked[-1].partition(b"\r\n\r\n")[2])["at"]
    assert (outcome.done, len(asked)) == (1, 2)
    assert abs(said - time.time() - ahead) < 60
    assert abs(outcome.skew - ahead) < 60


@pytest.mark.parametrize(
    "date", ["yesterday", "", "Mon, 99 Jan 99999999999 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359"]
)
def test_a_date_that_is_none_is_no_crash(certified: Certified, date: str) -> None:
    with serving(saying(200, b"{}", Date=date), certified.good) as (address, _):
        assert told(address, certified).done == 1


def test_an_answer_without_end_is_cut(certified: Certified) -> None:
    endless = for_ever(b'HTTP/1.1 200 X\r\n\r\n{"items": "', b"x" * 65536)
    with serving(endless, certified.good) as (address, _):
        assert told(address, certified).done == 1, "it took it over, whatever it says of it"
        with pytest.raises(ObservationError) as raised:
            fetch(Api(address, str(certified.account)), "/api/v1/pods", 1 << 20)
    assert "longer than 1 MiB" in raised.value.why
