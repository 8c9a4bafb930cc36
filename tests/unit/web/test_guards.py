# SPDX-License-Identifier: Apache-2.0
"""Under which names a server answers, wherever it listens, and to which token."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zombiescope.errors import UsageError
from zombiescope.web.guards import Guards, guards_for, read_token
from zombiescope.web.http import Request

HERE = os.uname().nodename


def answered(guards: Guards, host: str | None, authorization: str = "") -> int:
    headers = {"authorization": authorization} | ({} if host is None else {"host": host})
    refusal = guards.refusal(Request("/", {}, headers))
    return refusal.status if refusal else 200


@pytest.mark.parametrize(
    ("address", "own", "foreign"),
    [
        (
            "127.0.0.1",
            ["127.0.0.1:9753", "localhost", "LocalHost.:8000", "127.9.9.9:1", "[::1]:9753", None],
            [
                "evil.example:9753",
                "10.0.0.1",
                "",
                "localhost.evil.example",
                "127.0.0.1.evil.example",
                "[7f00::1]",
                "[::",
            ],
        ),
        ("::1", ["[::1]:9753", "localhost:9753", "127.0.0.1"], ["evil.example", "[::2]", "::1"]),
        ("10.0.0.5", ["10.0.0.5:9753", f"{HERE}:9753", HERE.upper()], ["evil.example", "10.0.0.6:9753", "localhost"]),
        ("0.0.0.0", ["10.0.0.5:9753", "[fe80::1]:1", HERE, "localhost"], ["evil.example", f"{HERE}.evil.example"]),
        ("::", ["10.0.0.5:9753", "[2001:db8::1]:9753"], ["evil.example", "\xff\xfe", "a\0b"]),
        ("localhost", ["localhost:1", "127.0.0.1"], ["evil.example"]),
        ("127.0.0.1", ["[::1]", "127.0.0.1:"], ["127.0.0.1:evil.example", "[::1]evil.example", "[::1]:a", "[::1]1"]),
    ],
)
def test_only_its_own_names_are_answered(address: str, own: list[str | None], foreign: list[str]) -> None:
    guards = guards_for(address)
    assert {host: answered(guards, host) for host in own} == dict.fromkeys(own, 200)
    assert {host: answered(guards, host) for host in foreign} == dict.fromkeys(foreign, 421)


def test_further_names_are_those_of_the_configuration() -> None:
    guards = guards_for("0.0.0.0", ["Node7.Example.com.", "metrics"])
    assert answered(guards, "node7.example.com:9753") == answered(guards, "METRICS") == 200
    assert answered(guards, "node8.example.com:9753") == 421


def test_a_socket_in_the_file_system_has_no_name_to_check() -> None:
    assert answered(guards_for(""), "anything") == 200


def test_the_token_must_be_shown_as_it_is() -> None:
    guards = guards_for("127.0.0.1", token="0123456789abcdef")
    assert answered(guards, "localhost", "Bearer 0123456789abcdef") == 200
    assert answered(guards, "localhost", "bearer  0123456789abcdef ") == 200
    for wrong in ("", "Bearer", "Bearer 0123456789abcdeF", "0123456789abcdef", "Basic 0123456789abcdef", "Bearer \xff"):
        assert answered(guards, "localhost", wrong) == 401, wrong
    assert answered(guards, "evil.example", "Bearer 0123456789abcdef") == 421


def test_a_token_comes_from_a_file_of_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    file.chmod(0o600)
    assert read_token(str(file)) == "0123456789abcdef"
    for mode, text, why in (
        (0o644, "0123456789abcdef", "others may look into it"),
        (0o620, "0123456789abcdef", "others may write to it"),
        (0o600, "short", "16 to 1024"),
        (0o600, "0123456789 abcdef", "printable"),
        (0o600, "", "16 to"),
    ):
        file.write_text(text)
        file.chmod(mode)
        with pytest.raises(UsageError, match=why):
            read_token(str(file))
    with pytest.raises(UsageError, match="no such file"):
        read_token(str(tmp_path / "none"))
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(UsageError, match="not a regular file"):
        read_token(str(tmp_path / "fifo"))
