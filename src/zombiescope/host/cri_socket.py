# SPDX-License-Identifier: Apache-2.0
"""Asks a container runtime through its CRI socket: pods with their labels, containers, how one ended. Nothing is changed.

The least of gRPC that three questions need: one stream per connection, answers bounded in bytes and time, headers not looked at.
"""

import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from zombiescope.errors import ObservationError

_SECONDS = 10.0
"""For all that is asked through one socket, however slowly its answers come."""
_MOST_BYTES = 32 << 20
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GO_AWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 1, 1, 4, 8
_SERVICES = (b"runtime.v1.RuntimeService", b"runtime.v1alpha2.RuntimeService")
_IS_IT = "is it the runtime's socket, such as /run/containerd/containerd.sock or /var/run/crio/crio.sock?"

Fields = dict[int, list[int | bytes]]


class CriPod(NamedTuple):
    id: str
    uid: str
    namespace: str
    name: str
    is_ready: bool
    labels: Mapping[str, str]


class CriContainer(NamedTuple):
    id: str
    pod_id: str
    name: str
    attempt: int
    is_running: bool
    created_at: float


class CriEnd(NamedTuple):
    exit_code: int
    reason: str


class CriSocket:
    def __init__(self, path: str) -> None:
        self._path = path
        self._service = b""
        self._ends = time.monotonic() + _SECONDS

    def pods(self) -> list[CriPod]:
        found = []
        for item in _inner(self._ask(b"ListPodSandbox", b""), 1):
            uid, namespace, name = (_text(_first(item, 2), field) for field in (2, 3, 1))
            labels = {_text(each, 1): _text(each, 2) for each in _inner(item, 5)}
            found.append(CriPod(_text(item, 1), uid, namespace, name, _number(item, 3) == 0, labels))
        return found

    def containers(self) -> list[CriContainer]:
        found = []
        for item in _inner(self._ask(b"ListContainers", b""), 1):
            about, is_running, created = _first(item, 3), _number(item, 6) == 1, _number(item, 7) / 1e9
            of, name, attempt = _text(item, 2), _text(about, 1), _number(about, 2)
            found.append(CriContainer(_text(item, 1), of, name, attempt, is_running, created))
        return found

    def end_of(self, container: str) -> CriEnd | None:
        """None where it has not ended, is gone meanwhile, or is not told in a form we know."""
        number = container.encode()
        try:
            status = _first(self._ask(b"ContainerStatus", b"\x0a" + _varint(len(number)) + number), 1)
        except (ObservationError, ValueError):
            return None
        if _number(status, 3) != 2:
            return None
        code = _number(status, 7)
        code -= 1 << 64 if code >= 1 << 63 else 0
        return CriEnd(code, _text(status, 10))

    def _ask(self, method: bytes, message: bytes) -> Fields:
        services = (self._service,) if self._service else _SERVICES
        why = "it gave no answer"
        for service in services:
            answer, why = self._exchange(b"/" + service + b"/" + method, message)
            if answer is not None:
                self._service = service
                return fields_of(answer)
        raise ObservationError(f"cannot ask the container runtime at {self._path}", why, _IS_IT)

    def _exchange(self, path: bytes, message: bytes) -> tuple[bytes | None, str]:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as speaking:
                _wait_until(speaking, self._ends)
                speaking.connect(os.fsencode(self._path))
                speaking.sendall(request(path, message))
                return answer_of(speaking, self._ends), "it refused the question"
        except TimeoutError:
            return None, f"it did not answer within {_SECONDS:.0f} s"
        except (OSError, ValueError) as error:
            return None, str(getattr(error, "strerror", None) or error).lower()


def request(path: bytes, message: bytes) -> bytes:
    headers = (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"), (b"te", b"trailers"),
    )  # fmt: skip
    block = b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in headers)
    return b"".join(
        (
            _PREFACE,
            _frame(_SETTINGS, 0, 0, b""),
            _frame(_WINDOW, 0, 0, struct.pack(">I", _MOST_BYTES)),
            _frame(_HEADERS, _END_HEADERS, 1, block),
            _frame(_DATA, _END_STREAM, 1, b"\0" + struct.pack(">I", len(message)) + message),
        )
    )


def _wait_until(speaking: socket.socket, ends: float) -> None:
    if (left := ends - time.monotonic()) <= 0:
        raise TimeoutError
    speaking.settimeout(left)


def answer_of(speaking: socket.socket, ends: float) -> bytes | None:
    """The message of the stream; None where it ended without one. `ends`: when all of it must have come."""
    body = bytearray()
    while True:
        kind, flags, stream, payload = _read_frame(speaking, ends)
        if kind == _DATA and stream == 1:
            body += payload[1 : len(payload) - payload[0]] if flags & _PADDED and payload else payload
            if len(body) > _MOST_BYTES:
                raise ValueError("its answer is too long")
            if payload:
                speaking.sendall(_frame(_WINDOW, 0, 1, struct.pack(">I", len(payload))))
        elif kind in (_SETTINGS, _PING) and not flags & _ACK:
            speaking.sendall(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
        elif kind == _GO_AWAY or (kind == _RESET and stream == 1):
            return None
        if stream == 1 and kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            break
    return None if len(body) < 5 or body[0] else bytes(body[5 : 5 + int.from_bytes(body[1:5], "big")])


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _read_frame(speaking: socket.socket, ends: float) -> tuple[int, int, int, bytes]:
    head = _read(speaking, 9, ends)
    payload = _read(speaking, int.from_bytes(head[:3], "big"), ends)
    return head[3], head[4], int.from_bytes(head[5:9], "big") & 0x7FFFFFFF, payload


def _read(speaking: socket.socket, size: int, ends: float) -> bytes:
    content = bytearray()
    while len(content) < size:
        _wait_until(speaking, ends)
        if not (part := speaking.recv(size - len(content))):
            raise ValueError("it hung up")
        content += part
    return bytes(content)


def fields_of(message: bytes) -> Fields:
    """Of a protobuf message: numbers and bytes by field. Raises ValueError where it is none."""
    found: Fields = {}
    at = 0
    while at < len(message):
        key, at = _take_varint(message, at)
        field, kind = key >> 3, key & 7
        if kind == 0:
            value: int | bytes
            value, at = _take_varint(message, at)
        elif kind == 2:
            size, at = _take_varint(message, at)
            value, at = message[at : at + size], at + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = message[at : at + size], at + size
        else:
            raise ValueError("no message")
        if at > len(message):
            raise ValueError("a message that was cut")
        found.setdefault(field, []).append(value)
    return found


def _take_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError("a number that was cut")
        byte = message[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _varint(number: int) -> bytes:
    found = b""
    while number >= 0x80:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def _inner(fields: Fields, field: int) -> Iterator[Fields]:
    return (fields_of(value) for value in fields.get(field, ()) if isinstance(value, bytes))


def _first(fields: Fields, field: int) -> Fields:
    return next(_inner(fields, field), {})


def _text(fields: Fields, field: int) -> str:
    value = fields.get(field, [b""])[-1]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _number(fields: Fields, field: int) -> int:
    value = fields.get(field, [0])[-1]
    return value if isinstance(value, int) else 0
