# SPDX-License-Identifier: Apache-2.0
"""Files that come with the package, and files that a person named: read whole, with our errors."""

from __future__ import annotations

import os
from importlib import resources

from zombiescope.errors import UsageError
from zombiescope.facts.names import shown

_LIMIT_BYTES = 4 << 20


def read_shipped(name: str) -> bytes:
    return resources.files("zombiescope").joinpath("data", name).read_bytes()


def read_named(path: bytes) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(_LIMIT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {shown(path)}", (error.strerror or str(error)).lower(), "name a file") from error
    if len(content) > _LIMIT_BYTES:
        raise UsageError(f"cannot read {shown(path)}", "it is larger than 4 MiB", "name a configuration file")
    return content


def environment(prefix: str) -> dict[str, str]:
    """The environment variables that begin so."""
    return {name: value for name, value in os.environ.items() if name.startswith(prefix)}
