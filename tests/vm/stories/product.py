# SPDX-License-Identifier: Apache-2.0
"""The command as a person types it, and what every document must keep to."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

COMMAND = ("python3", "-m", "zombiescope")


def document(*arguments: str, prefix: Sequence[str] = (), status: int = 0) -> dict[str, Any]:
    """The one JSON document of a command that ended with `status`."""
    done = subprocess.run([*prefix, *COMMAND, *arguments, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == status, f"exit {done.returncode}: {done.stderr}{done.stdout[:2000]}"
    assert "Traceback" not in done.stderr, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert not list(unexplained(answer)), f"null without a gap: {list(unexplained(answer))}"
    return answer


def unexplained(answer: dict[str, Any]) -> Iterator[str]:
    """Fields that are null and have no gap: absent must never be silent."""
    explained = {gap["fact"] for gap in answer["gaps"]}
    for path in _nulls(answer, ""):
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
