# SPDX-License-Identifier: Apache-2.0
"""Leaf names with their ids folded, the same way as bpf/ledger.bpf.c does it, so that every tier counts by the same patterns.

Only to keep the number of patterns small; who the maker is is said by the whole path of one of them. Therefore never wider
than the folding of makers: a unit keeps short numbers, for app1.service and app2.service are two makers.
"""

from __future__ import annotations

import re

_UNIT = re.compile(rb"(?!run-).+\.(?:service|slice|socket|mount|swap)")
_LONG_ID = re.compile(rb"(?=[a-f]*[0-9])[0-9a-f]{8,}")
_ID = re.compile(rb"(?<![0-9A-Za-z])(?=[a-f]*[0-9])[0-9a-f]{6,7}(?![0-9A-Za-z])|(?=[a-f]*[0-9])[0-9a-f]{8,}")
_DIGITS = re.compile(rb"[0-9]+")


def fold_leaf(name: bytes) -> bytes:
    if _UNIT.fullmatch(name):
        return _LONG_ID.sub(b"*", name)
    return _DIGITS.sub(b"*", _ID.sub(b"*", name))


def pattern_of(path: bytes) -> tuple[bytes, bytes]:
    """The parent's path and the folded leaf."""
    parent, _, leaf = path.rpartition(b"/")
    return parent, fold_leaf(leaf)
