# SPDX-License-Identifier: Apache-2.0
"""A text file for node_exporter's collector: written beside and renamed, so that nobody reads half of it.

By descriptor, in a folder that no stranger can swap: whatever link lies there, nothing outside of that folder is written.
"""

from __future__ import annotations

import os

from zombiescope.host.own_folder import guarded_folder
from zombiescope.host.whole_file import write_whole_in

_MODE = 0o644
"""node_exporter is somebody else; the agent's own umask must not keep it out."""


def write_textfile(path: str, body: bytes) -> str | None:
    """Why it could not be written, or None. It is written anew at every look: no disk is waited for."""
    where, name = os.path.split(path)
    try:
        with guarded_folder(where) as folder:
            write_whole_in(folder, name, [body], mode=_MODE, sync=False)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None
