# SPDX-License-Identifier: Apache-2.0
"""The address of a node's own page, made from a template and what is known of the node. Names and labels are a stranger's: what
stands for a host must be one, everything else is percent-encoded, and no other scheme than http and https comes out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from zombiescope.errors import UsageError
from zombiescope.facts.names import raw

INSTANCE_PAGE = "http://{instance}/"
"""An agent serves its page where it is scraped."""
_TEMPLATE = re.compile(
    r"(?P<scheme>https?)://(?P<host>[^/?#@]+)(?P<path>/[^\\\"'<>^`|\s]*)?\Z", re.IGNORECASE | re.ASCII
)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PLACE = re.compile(r"\{([^{}]*)\}")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?\Z")
_HINT = "--node-page http://{instance}/, or {node}, or any label"


class NodeLinks:
    """`of` gives the address, or None where what is known makes none."""

    def __init__(self, template: str) -> None:
        found = _TEMPLATE.match(template)
        bare = _PLACE.sub("x", template)
        if found is None or not _HOST.match(_PLACE.sub("x", found["host"])):
            raise UsageError(f"cannot use the address {template!r}", "it is not http://HOST/ or https://HOST/", _HINT)
        if not re.fullmatch(r"[!-~]+", bare) or {"{", "}"} & set(bare):
            raise UsageError(f"cannot use the address {template!r}", "it holds what no address may hold", _HINT)
        self._scheme, self._host, self._path = found["scheme"].lower(), found["host"], found["path"] or "/"

    def of(self, node: str, labels: Mapping[str, str], instance: str | None) -> str | None:
        known = {**labels, "node": node}
        if instance is not None:
            known["instance"] = instance
        try:
            host = _PLACE.sub(lambda match: known[match[1]], self._host)
            path = _PLACE.sub(lambda match: _encoded(known[match[1]]), self._path)
        except KeyError:
            return None
        return f"{self._scheme}://{host}{path}" if _HOST.match(host) else None


def _encoded(text: str) -> str:
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in raw(text))
