# SPDX-License-Identifier: Apache-2.0
"""From which image the machine was made: what cloud-init was told, what os-release says of the image, else the distribution."""

from __future__ import annotations

import json
from typing import Any

from zombiescope.facts.names import shown
from zombiescope.host.access import Host

_CLOUD = b"/run/cloud-init/instance-data.json"
_RELEASES = (b"/etc/os-release", b"/usr/lib/os-release")
_CLOUD_NAMES = ("ami-id", "ami_id", "image_id", "image-id", "image")
_LONGEST = 100


def read_node_image(host: Host) -> str:
    """Empty where nothing tells."""
    return (_from_cloud(host) or _from_release(host))[:_LONGEST]


def _from_cloud(host: Host) -> str:
    try:
        told = json.loads(host.read(_CLOUD))
    except (OSError, ValueError, RecursionError):
        return ""
    for place in (("ds", "meta_data"), ("ds", "dynamic", "instance-identity", "document")):
        part: Any = told
        for name in place:
            part = part.get(name) if isinstance(part, dict) else None
        if isinstance(part, dict):
            for name in (*_CLOUD_NAMES, "imageId"):
                value = part.get(name)
                if isinstance(value, str) and value:
                    return shown(value.encode("utf-8", "surrogatepass"))
    return ""


def _from_release(host: Host) -> str:
    for path in _RELEASES:
        try:
            text = host.read(path)
        except OSError:
            continue
        said = dict(line.split(b"=", 1) for line in text.splitlines() if b"=" in line)
        for names in ((b"IMAGE_ID", b"IMAGE_VERSION"), (b"ID", b"VERSION_ID")):
            words = [shown(said.get(name, b"").strip(b"\"' \t\r")) for name in names]
            if words[0]:
                return " ".join(word for word in words if word)
    return ""
