# SPDX-License-Identifier: Apache-2.0
"""A runtime that speaks gRPC over a socket in this process; what it says wrongly is an error in words."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kube_nodes import UID_A

from zombiescope.errors import ObservationError
from zombiescope.facts.pods import Owner
from zombiescope.host import cri_socket
from zombiescope.host.cri_socket import CriSocket, fields_of
from zombiescope.pipeline.asking_pods import PodSources, ask_runtime


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def varint(number: int) -> bytes:
    found = b""
    while number >= 0x80:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


SANDBOX = field(1, "s1") + field(2, field(1, "web-7d4b9c8f6-x2z4k") + field(2, UID_A) + field(3, "shop"))
SANDBOX += field(5, field(1, "pod-template-hash") + field(2, "7d4b9c8f6"))
NOW = 1_700_000_000 * 10**9


def container(number: str, attempt: int, state: int, created: int) -> bytes:
    made = field(1, number) + field(2, "s1") + field(3, field(1, "c0") + field(2, attempt))
    return made + field(6, state) + field(7, created)


ANSWERS = {
    b"ListPodSandbox": field(1, SANDBOX),
    b"ListContainers": field(1, container("a" * 64, 4, 2, NOW - 25 * 10**9)) + field(1, container("b" * 64, 5, 1, NOW)),
    b"ContainerStatus": field(
        1, field(1, "a" * 64) + field(3, 2) + field(6, NOW) + field(7, 137) + field(10, "OOMKilled")
    ),
}
Said = Callable[[bytes], bytes]


def well_said(asked: bytes, version: bytes = b"runtime.v1.") -> bytes:
    """Settings, a ping, headers, the message in two pieces, trailers."""
    method = next((name for name in ANSWERS if name in asked and version in asked), None)
    start = frame(4, 0, 0, b"") + frame(6, 0, 0, b"12345678") + frame(1, 4, 1, b"\x88")
    if method is None:
        return frame(4, 0, 0, b"") + frame(1, 5, 1, b"\x88")
    message = b"\0" + struct.pack(">I", len(ANSWERS[method])) + ANSWERS[method]
    return start + frame(0, 0, 1, message[:7]) + frame(0, 8, 1, b"\x02" + message[7:] + b"\0\0") + frame(1, 5, 1, b"")


@contextmanager
def runtime(tmp_path: Path, said: Said) -> Iterator[str]:
    path = str(tmp_path / "cri.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen(8)

        def serve() -> None:
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer:
                    asked = b""
                    while b"application/grpc" not in asked or len(asked) < 200:
                        part = peer.recv(4096)
                        asked += part
                        if not part or b"\0\0\0\0\0" in asked[-40:] or b"trailers" in asked:
                            break
                    try:
                        peer.sendall(said(asked))
                        peer.settimeout(1)
                        while peer.recv(4096):
                            pass
                    except OSError:
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield path
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(5)


@pytest.mark.parametrize("version", [b"runtime.v1.", b"runtime.v1alpha2."])
def test_owner_reason_and_exit_code_come_from_the_runtime(tmp_path: Path, version: bytes) -> None:
    with runtime(tmp_path, lambda asked: well_said(asked, version)) as path:
        found = ask_runtime(path)
    (pod,) = found.pods
    assert pod.owner == Owner("Deployment", "web", is_guess=False)
    assert pod.maker == "workload:shop/Deployment/web"
    (only,) = pod.containers
    assert (only.name, only.restarts, only.is_running, only.pause_seconds) == ("c0", 5, True, 25.0)
    assert (only.reason, only.exit_code) == ("OOMKilled", 137)
    assert found.containers == (("a" * 64, "c0"), ("b" * 64, "c0"))


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        frame(7, 0, 0, b"\0" * 8),
        frame(3, 0, 1, b"\0" * 4),
        frame(0, 1, 1, b"\0\0\0\0\x09cut"),
        frame(0, 1, 1, b"\1\0\0\0\0"),
    ],
)
def test_what_is_no_runtime_is_a_gap_in_words(tmp_path: Path, said: bytes) -> None:
    with runtime(tmp_path, lambda _: said) as path:
        (ask,) = PodSources(path).asking()
        answer = ask()
    assert "runtime" in str(answer)


def test_an_end_that_is_no_message_is_one_that_nobody_told(tmp_path: Path) -> None:
    def said(asked: bytes) -> bytes:
        return frame(0, 1, 1, b"\0\0\0\0\x02\xff\xff") if b"ContainerStatus" in asked else well_said(asked)

    with runtime(tmp_path, said) as path:
        (pod,) = ask_runtime(path).pods
    assert (pod.containers[0].reason, pod.containers[0].exit_code) == ("", None)


def test_one_that_answers_byte_by_byte_has_a_time_for_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cri_socket, "_SECONDS", 0.3)
    path = str(tmp_path / "cri.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen(8)

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                for _ in range(100):
                    try:
                        peer.sendall(frame(4, 1, 0, b""))
                    except OSError:
                        return
                    time.sleep(0.05)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        (ask,) = PodSources(path).asking()
        answer = ask()
        thread.join(10)
    assert "did not answer within" in str(answer)


def test_no_socket_at_all(tmp_path: Path) -> None:
    with pytest.raises(ObservationError, match="cannot ask"):
        CriSocket(str(tmp_path / "none")).pods()


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_no_message(raw: bytes) -> None:
    try:
        found = fields_of(raw)
    except ValueError:
        return
    assert all(isinstance(number, int) for number in found)
