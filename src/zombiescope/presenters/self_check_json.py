# SPDX-License-Identifier: Apache-2.0
"""What of us works on a host, for a program: `zombiescope.self-check/1`."""

from __future__ import annotations

from zombiescope.facts.self_check import SelfCheck, Status
from zombiescope.presenters.document import Json, document


def render_self_check(seen: SelfCheck) -> Json:
    body: Json = {
        "build": seen.build._asdict(),
        "is_root": seen.is_root,
        "working": sum(part.status is Status.WORKS for part in seen.parts),
        "parts": {
            part.name: {"use": part.use, "used_by": list(part.used_by), "status": part.status.value, "by": part.by}
            for part in seen.parts
        },
    }
    return document("self-check/1", seen, body, [part.gap for part in seen.parts if part.gap])
