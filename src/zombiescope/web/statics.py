# SPDX-License-Identifier: Apache-2.0
"""The page's own files: read and packed when somebody asks, kept by nobody but the browser."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

from zombiescope.web.http import Response
from zombiescope.web.shelf import etag_of

STATIC = files("zombiescope.web").joinpath("static")
_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_PREFIX = "/static/"


def answer_static(path: str, root: Traversable = STATIC) -> Response | None:
    """None: there is no such file."""
    name = "index.html" if path == "/" else path.removeprefix(_PREFIX) if path.startswith(_PREFIX) else ""
    kind = _KINDS.get(name.rpartition(".")[2])
    found = _file(root, name) if kind else None
    if found is None:
        return None
    content = found.read_bytes()
    return Response(200, f"{kind}; charset=utf-8", content, etag=etag_of(content))


def _file(root: Traversable, name: str) -> Traversable | None:
    """Only names that a folder lists: no dots, no escapes, no links to elsewhere."""
    place = root
    for part in name.split("/"):
        found = next((entry for entry in place.iterdir() if entry.name == part), None) if place.is_dir() else None
        if found is None:
            return None
        place = found
    return place if place.is_file() else None
