# SPDX-License-Identifier: Apache-2.0
"""Names of pods, wherever they are known: kubelet's log folders now, and what an agent remembered of pods that are gone."""

from __future__ import annotations

import json
import os

from zombiescope.analysis.pod_book import PodBook
from zombiescope.config import load_config
from zombiescope.errors import ZombiescopeError
from zombiescope.facts.pods import KnownPods
from zombiescope.history.pod_file import read_pod_file
from zombiescope.host.access import Host, beside_recording
from zombiescope.host.live import LiveHost
from zombiescope.watching.pods import names_now


def read_known_pods(host: Host, state: str | None = None) -> KnownPods:
    """`state`: an agent's folder; without it the configured one. What is there now counts before what is remembered."""
    now = names_now(host)
    if not isinstance(beside_recording(host), LiveHost):
        return now
    book = PodBook()
    book.load(remembered_in(state))
    pods = {**book.pods, **{uid: pod for uid, pod in now.pods.items() if not _is_known_better(book, uid)}}
    return KnownPods(pods, {**book.containers, **now.containers}, now.node)


def _is_known_better(book: PodBook, uid: str) -> bool:
    known = book.pods.get(uid)
    return known is not None and not known.owner.is_guess


def remembered_in(state: str | None) -> object:
    try:
        folder = load_config(None, {}).text("state") if state is None else state
        text = read_pod_file(os.fsencode(folder)) if folder else b""
        return json.loads(text or b"{}")
    except (ZombiescopeError, OSError, ValueError, RecursionError):
        return {}
