# SPDX-License-Identifier: Apache-2.0
"""The command as a person types it, and what every document must keep to.

Under emulation a Python start costs two seconds, so a plain command is a forked copy of a process that has loaded the
package; with a prefix (another user, a container) it is started for real.
"""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import IO, Any

import zombiescope

COMMAND = ("python3", "-m", "zombiescope")
_LOADED = ("cli", "pipeline", "presenters", "diagnosis", "analysis", "probes", "lab", "kernel", "host", "facts")
_OPTIONAL_TEXT = ("note", "made[].file")


def document(*arguments: str, prefix: Sequence[str] = (), status: int = 0) -> dict[str, Any]:
    """The one JSON document of a command that ended with `status`."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        words = [*arguments, "--json"]
        ended = _started([*prefix, *COMMAND, *words], output, errors) if prefix else _forked(words, output, errors)
        said, complaint = _text(output), _text(errors)
    assert ended == status, f"exit {ended}: {complaint}{said[:2000]}"
    assert "Traceback" not in complaint, complaint
    answer: dict[str, Any] = json.loads(said)
    assert not list(unexplained(answer)), f"null without a gap: {list(unexplained(answer))}"
    return answer


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _started(command: list[str], output: IO[str], errors: IO[str]) -> int:
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, check=False).returncode


def _forked(arguments: list[str], output: IO[str], errors: IO[str]) -> int:
    _load()
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    try:
        for file, number in ((output, 1), (errors, 2)):
            os.dup2(file.fileno(), number)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        ended: int = import_module("zombiescope.cli.main").main(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended)
    finally:
        os._exit(99)  # an exception must never go back into pytest


def _load() -> None:
    """The rooms that the stories go through. What wants a package that is not in the image is nobody's story here."""
    for module in pkgutil.walk_packages(zombiescope.__path__, "zombiescope.", onerror=lambda name: None):
        if module.name.split(".")[1] in _LOADED:
            try:
                import_module(module.name)
            except ModuleNotFoundError as missing:
                if str(missing.name).startswith("zombiescope"):
                    raise


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
