# SPDX-License-Identifier: Apache-2.0
"""The command as a person types it: its exit status and what it said.

Under emulation a Python start costs seconds, so inside a machine of the matrix a plain command is a forked copy of a process
that has loaded the package; with a prefix (another user, a container) and on a real host it is started for real.
"""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from typing import IO, NamedTuple

from tests.open_ways import open_ways
from tests.product import GIVEN, PRODUCT

import zombiescope

IN_MACHINE = "ZOMBIESCOPE_VM_CELL" in os.environ
"""Inside a machine of the matrix: slow, alone on its kernel, and without compilers."""
COMMAND = PRODUCT
_LOADED = ("cli", "pipeline", "presenters", "diagnosis", "analysis", "probes", "lab", "kernel", "host", "facts")


class Ended(NamedTuple):
    status: int
    out: str
    err: str


def run_command(arguments: Sequence[str], prefix: Sequence[str] = (), seconds: float = 120) -> Ended:
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        if IN_MACHINE and not prefix and not GIVEN:
            status = _forked(arguments, output, errors)
        else:
            command = [*prefix, *COMMAND, *arguments]
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                check=False,
                timeout=seconds,
                preexec_fn=open_ways
                if "setpriv" in prefix
                else None,  # another user may not enter where the checkout is
            )
            status = done.returncode
        return Ended(status, _text(output), _text(errors))


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _forked(arguments: Sequence[str], output: IO[str], errors: IO[str]) -> int:
    _load()
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    try:
        for file, number in ((output, 1), (errors, 2)):
            os.dup2(file.fileno(), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        ended: int = import_module("zombiescope.cli.main").main(list(arguments))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended)
    finally:
        os._exit(99)  # an exception must never go back into pytest


def _load() -> None:
    """The rooms that these tests go through. What wants a package that is not in the image is nobody's story here."""
    for module in pkgutil.walk_packages(zombiescope.__path__, "zombiescope.", onerror=lambda name: None):
        if module.name.split(".")[1] in _LOADED:
            try:
                import_module(module.name)
            except ModuleNotFoundError as missing:
                if str(missing.name).startswith("zombiescope"):
                    raise
