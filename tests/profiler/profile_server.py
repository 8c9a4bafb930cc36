# SPDX-License-Identifier: Apache-2.0
"""A server of profiles on loopback: keeps every request, answers as it is told; and Pyroscope's messages, read by protobuf's own
library from a description made here."""

from __future__ import annotations

import gzip
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

_TEXT, _BYTES, _INT64, _UINT64, _MESSAGE = 9, 12, 3, 4, 11
_FIELDS: dict[str, list[tuple[str, int, int, bool, str]]] = {
    "PushRequest": [("series", 1, _MESSAGE, True, "Series")],
    "Series": [("labels", 1, _MESSAGE, True, "Label"), ("samples", 2, _MESSAGE, True, "Raw")],
    "Label": [("name", 1, _TEXT, False, ""), ("value", 2, _TEXT, False, "")],
    "Raw": [("raw_profile", 1, _BYTES, False, ""), ("ID", 2, _TEXT, False, "")],
    "Profile": [
        ("sample_type", 1, _MESSAGE, True, "ValueType"),
        ("sample", 2, _MESSAGE, True, "Sample"),
        ("location", 4, _MESSAGE, True, "Location"),
        ("function", 5, _MESSAGE, True, "Function"),
        ("string_table", 6, _TEXT, True, ""),
        ("time_nanos", 9, _INT64, False, ""),
        ("duration_nanos", 10, _INT64, False, ""),
        ("period_type", 11, _MESSAGE, False, "ValueType"),
        ("period", 12, _INT64, False, ""),
    ],
    "ValueType": [("type", 1, _INT64, False, ""), ("unit", 2, _INT64, False, "")],
    "Sample": [("location_id", 1, _UINT64, True, ""), ("value", 2, _INT64, True, "")],
    "Location": [("id", 1, _UINT64, False, ""), ("line", 4, _MESSAGE, True, "Line")],
    "Line": [("function_id", 1, _UINT64, False, "")],
    "Function": [("id", 1, _UINT64, False, ""), ("name", 2, _INT64, False, ""), ("filename", 4, _INT64, False, "")],
}


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="profiles_of_others.proto", package="others", syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind, is_repeated, inner in fields:
            made = message.field.add(name=field, number=number, label=3 if is_repeated else 1)
            made.type = kind
            if inner:
                made.type_name = f".others.{inner}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"others.{name}")) for name in _FIELDS}


MESSAGES = _messages()


class Asked(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes


class Server:
    """`answers`: one for each request, the last one for all that follow: status, body, headers."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answers: list[tuple[int, bytes, dict[str, str]]] = [(200, b"", {})]
        self.most_bytes = 1 << 40
        self.url = ""

    def next_answer(self, size: int) -> tuple[int, bytes, dict[str, str]]:
        if size > self.most_bytes:
            return 413, b"too large", {"Content-Type": "text/plain"}
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def profile_server(tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.asked.append(Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            status, content, headers = server.next_answer(len(body))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        listening.socket = tls.wrap_socket(listening.socket, server_side=True)
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{listening.server_port}"
    thread = Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def push_request(body: bytes) -> Any:
    return MESSAGES["PushRequest"].FromString(gzip.decompress(body))


def pprof_stacks(raw: bytes) -> dict[tuple[str, ...], list[int]]:
    """Root first, with the values of each."""
    profile = MESSAGES["Profile"].FromString(raw)
    function = {one.id: profile.string_table[one.name] for one in profile.function}
    place = {one.id: function[one.line[0].function_id] for one in profile.location}
    return {tuple(place[at] for at in reversed(one.location_id)): list(one.value) for one in profile.sample}
