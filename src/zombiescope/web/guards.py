# SPDX-License-Identifier: Apache-2.0
"""Who is answered: the Host must be this server, and where a token is set it must be shown.

A page from elsewhere can have its own name lead to this address (DNS rebinding) and then read us as if we were it. It cannot
have an address as its name: so addresses are let in where we listen on all of them, and names only if they are ours.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterable
from contextlib import suppress
from hmac import compare_digest
from typing import NamedTuple

from zombiescope.errors import UsageError, reason_of
from zombiescope.facts.names import shown
from zombiescope.host.own_folder import guarded_folder
from zombiescope.host.safe_open import open_regular, why_foreign
from zombiescope.web.http import Request, Response, plain

_WAITING = 512
_KIND = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC


def open_listening(where: tuple[str, int] | str) -> socket.socket:
    """A pair is an address and a port, a text a path. Raises OSError."""
    if isinstance(where, str):
        return _on_a_path(where)
    family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
    listening = socket.socket(family, _KIND)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(_WAITING)
    except OSError:
        listening.close()
        raise
    return listening


def _on_a_path(path: str) -> socket.socket:
    """Bound through the folder's descriptor: nobody can swap what lies on the way, and a long way fits too."""
    where, name = os.path.split(path)
    with guarded_folder(where) as folder:
        listening = socket.socket(socket.AF_UNIX, _KIND)
        try:
            place = f"/proc/self/fd/{folder}/{name}"
            _remove_a_dead_one(folder, name, place)
            before = os.umask(0o177)
            try:
                listening.bind(place)
            finally:
                os.umask(before)
            listening.listen(_WAITING)
        except OSError:
            listening.close()
            raise
    return listening


def _remove_a_dead_one(folder: int, name: str, place: str) -> None:
    """A socket of ours that nobody listens on any more: a killed agent cannot take it away."""
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid not in (0, os.geteuid()):
            raise FileExistsError(errno.EEXIST, "something else has that name")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as asking:
            if asking.connect_ex(place) != errno.ECONNREFUSED:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        os.unlink(name, dir_fd=folder)


def remove_path(path: str) -> None:
    """At the end, when ours is closed and if nobody else listens under that name by now."""
    where, name = os.path.split(path)
    with suppress(OSError), guarded_folder(where) as folder:
        _remove_a_dead_one(folder, name, f"/proc/self/fd/{folder}/{name}")


_LOOPBACK_NAME = "localhost"
_ANYWHERE = (b"\0" * 4, b"\0" * 16)
_NEAR_6 = b"\0" * 15 + b"\1"
_OWN_ADDRESS = plain(
    421,
    "this server answers only to its own address: ask for that, or add the name you use to `hosts` in its configuration",
)
_NO_TOKEN = plain(
    401, "this server wants its token: Authorization: Bearer TOKEN", ("WWW-Authenticate", 'Bearer realm="zombiescope"')
)


class Guards(NamedTuple):
    """`address`: where we listen; empty for a socket in the file system, which no page of a browser can reach."""

    address: str = ""
    names: frozenset[str] = frozenset()
    token: str = ""

    def refusal(self, request: Request) -> Response | None:
        if self.address and not self._is_own(request.headers.get("host")):
            return _OWN_ADDRESS
        if self.token and not _is_shown(self.token, request.headers.get("authorization", "")):
            return _NO_TOKEN
        return None

    def _is_own(self, host: str | None) -> bool:
        """Any port: who forwards one asks for another. Without a Host (HTTP/1.0) it is no browser."""
        if host is None:
            return True
        name = _without_port(host).lower().removesuffix(".")
        if name in self.names:
            return True
        asked, listening = _literal(name), _literal(self.address)
        if asked is None:
            return False
        return listening in _ANYWHERE or asked == listening or (is_loopback(self.address) and _is_near(asked))


def guards_for(address: str, names: Iterable[str] = (), token: str = "") -> Guards:
    """`names`: others under which we are known. Ours are the address, `localhost` and, beyond loopback, the name of the host."""
    own = {address, *names}
    is_anywhere = _literal(address) in _ANYWHERE
    if is_anywhere or is_loopback(address):
        own.add(_LOOPBACK_NAME)
    if is_anywhere or not is_loopback(address):
        own.add(os.uname().nodename)
    return Guards(address, frozenset(name.lower().removesuffix(".") for name in own if name), token)


def is_loopback(address: str) -> bool:
    found = _literal(address)
    return address == _LOOPBACK_NAME or (found is not None and _is_near(found))


def _is_near(address: bytes) -> bool:
    return address == _NEAR_6 or (len(address) == 4 and address[:1] == b"\x7f")


def _without_port(host: str) -> str:
    """Empty for what is no address: nothing may hide behind a port or a bracket."""
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        is_whole = not port or port.startswith(":")
        port = port[1:]
    else:
        name, _, port = host.partition(":")
        is_whole = True
    return name if is_whole and (not port or (port.isascii() and port.isdecimal())) else ""


def _literal(text: str) -> bytes | None:
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        return socket.inet_pton(family, text)
    except (OSError, ValueError):
        return None


def _is_shown(token: str, authorization: str) -> bool:
    kind, _, shown = authorization.partition(" ")
    return compare_digest(shown.strip().encode("latin-1"), token.encode()) and kind.lower() == "bearer"


_LEAST, _MOST = 16, 1024
_MAKE_ONE = "head -c 32 /dev/urandom | base64 > FILE && chmod 600 FILE"


class TokenRule(NamedTuple):
    least: int
    most: int
    hint: str


OURS = TokenRule(_LEAST, _MOST, _MAKE_ONE)
THEIRS = TokenRule(1, 8192, "write the token that the server gave you into a file of your own: chmod 600 FILE")
"""Of another server: however it makes them."""


def read_token(path: str, rule: TokenRule = OURS) -> str:
    """Raises UsageError: a server that was to be closed must not begin open."""
    what = f"cannot use the token file {shown(os.fsencode(path))}"
    try:
        descriptor, status = open_regular(path, follow=True)
    except OSError as error:
        raise UsageError(what, reason_of(error), rule.hint) from error
    with os.fdopen(descriptor, "rb") as file:
        why = why_foreign(status, (0, os.geteuid()), stat.S_IRWXO | stat.S_IWGRP)
        if why:
            raise UsageError(what, why, rule.hint)
        content = file.read(rule.most + 2)
    token = content.strip()
    if not rule.least <= len(token) <= rule.most or not all(0x21 <= byte <= 0x7E for byte in token):
        raise UsageError(
            what, f"it must hold {rule.least} to {rule.most} printable characters and nothing else", rule.hint
        )
    return token.decode("ascii")
