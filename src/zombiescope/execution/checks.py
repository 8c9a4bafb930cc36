# SPDX-License-Identifier: Apache-2.0
"""Whether an action held, as `verify` found it: its last checks beside its journal, `STATE/actions/ID/verified.json`, version 1.

The file is replaced whole or stays what it was; one that is damaged, or of a later version, is left alone and tells nothing.
"""

import errno
import json
import os
from typing import Any

from zombiescope.execution.journal import Entry
from zombiescope.host.own_folder import STATE, own_folder
from zombiescope.host.safe_open import open_regular
from zombiescope.host.whole_file import write_whole_in

FILE = "verified.json"
VERSION = 1
_MOST, _MOST_BYTES = 10, 1 << 20
_VERDICTS = ("held", "not-held", "inconclusive")
_NUMBER = (int, float)


def keep_check(folder: str, check: Entry) -> None:
    """The newest last. Raises OSError."""
    found = _read(folder)
    if found.get("v", VERSION) != VERSION:
        raise OSError(errno.EEXIST, "a later version keeps its checks there")
    content = json.dumps({"v": VERSION, "checks": [*_checks(found), check][-_MOST:]}).encode()
    if len(content) > _MOST_BYTES:
        content = json.dumps({"v": VERSION, "checks": [check]}).encode()
    with own_folder(folder, STATE) as place:
        write_whole_in(place, FILE, [content])


def read_checks(folder: str) -> tuple[Entry, ...]:
    """Oldest first; none where there are none that can be read."""
    found = _read(folder)
    return tuple(_checks(found)) if found.get("v") == VERSION else ()


def _read(folder: str) -> dict[str, Any]:
    try:
        with os.fdopen(open_regular(os.path.join(folder, FILE))[0], "rb") as file:
            found = json.loads(file.read(_MOST_BYTES + 1))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _checks(found: dict[str, Any]) -> list[Entry]:
    checks = found.get("checks")
    return [each for each in checks if _is_whole(each)] if isinstance(checks, list) else []


def _is_whole(check: Any) -> bool:
    """Has what its readers look at."""
    return (
        isinstance(check, dict)
        and isinstance(check.get("at"), _NUMBER)
        and check.get("verdict") in _VERDICTS
        and isinstance(check.get("why"), str)
        and isinstance(check.get("rows"), list)
        and all(map(_is_row, check["rows"]))
    )


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and all(isinstance(row.get(name), str) for name in ("what", "unit", "verdict"))
        and all(_is_side(row.get(name)) for name in ("before", "after"))
    )


def _is_side(side: Any) -> bool:
    return isinstance(side, dict) and (side.get("value") is None or isinstance(side["value"], _NUMBER))
