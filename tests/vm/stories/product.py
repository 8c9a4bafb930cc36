# SPDX-License-Identifier: Apache-2.0
"""The command's one document, and what every document must keep to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.kernel.command import run_command

_OPTIONAL_TEXT = ("note", "made[].file")


def document(*arguments: str, prefix: Sequence[str] = (), status: int = 0) -> dict[str, Any]:
    """The one JSON document of a command that ended with `status`."""
    ended, said, complaint = run_command([*arguments, "--json"], prefix)
    assert ended == status, f"exit {ended}: {complaint}{said[:2000]}"
    assert "Traceback" not in complaint, complaint
    answer: dict[str, Any] = json.loads(said)
    assert not list(unexplained(answer)), f"null without a gap: {list(unexplained(answer))}"
    return answer


def unexplained(answer: dict[str, Any]) -> Iterator[str]:
    """Fields that are null and have no gap: absent must never be silent."""
    explained = {gap["fact"] for gap in answer["gaps"]}
    for path in set(_nulls(answer, "")).difference(_OPTIONAL_TEXT):
        if not any(path == fact or path.startswith((fact + ".", fact + "[")) for fact in explained):
            yield path


def _nulls(value: object, path: str) -> Iterator[str]:
    if value is None:
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _nulls(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _nulls(inner, path + "[]")


def zombies_below(answer: dict[str, Any], path: str) -> Any:
    """What the scan counts under one live parent; 0 when it does not list it."""
    return next((parent["zombies"] for parent in answer["parents"] if parent["path"] == path), 0)


def bytes_below(answer: dict[str, Any], path: str) -> Any:
    return next((parent["bytes"] for parent in answer["parents"] if parent["path"] == path), None)
