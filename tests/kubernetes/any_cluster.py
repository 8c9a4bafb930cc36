# SPDX-License-Identifier: Apache-2.0
"""A cluster of one node as the tests ask it, wherever the node is: by kubectl, and by commands on the node."""

from __future__ import annotations

import json
import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kubernetes.build import Programs

TOP = Path(__file__).resolve().parents[2]
MOST_SECONDS = 120.0


class ClusterError(Exception):
    """Why there is no cluster, or what a command of it said."""


class AnyCluster(ABC):
    programs: Programs
    kubeconfig: Path
    program: str
    """Our command, as the node sees it."""
    seconds_to_ready: float = 0.0
    patience: float = 1.0
    """How much longer everything may take than on this machine."""
    to_apply: tuple[str, ...] = ("apply",)

    @abstractmethod
    def run(self, *words: str, check: bool = True, **more: Any) -> subprocess.CompletedProcess[str]:
        """A command on the node."""

    @abstractmethod
    def kubectl_done(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """However it ended."""

    @abstractmethod
    def answer(self, pod: dict[str, Any], path: str) -> str:
        """Of our agent, at the address of its pod."""

    @property
    def environment(self) -> dict[str, str]:
        """For programs that call kubectl by its name."""
        path = f"{self.programs.kubectl.parent}:{os.environ['PATH']}"
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        return said(self.kubectl_done(*words, input=stdin), check=check).stdout

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl(
            *self.to_apply, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        )

    def wait(self, what: str, holds: Callable[[], Any], seconds: float = MOST_SECONDS) -> Any:
        """Until it is true; what it was then."""
        ends = time.monotonic() + seconds * self.patience
        while not (found := holds()):
            if time.monotonic() > ends:
                raise ClusterError(f"not within {seconds * self.patience:.0f} s: {what}")
            time.sleep(0.2 * self.patience**1.5)
        return found


def said(done: subprocess.CompletedProcess[str], *, check: bool) -> subprocess.CompletedProcess[str]:
    """What a command said; an error where it failed and should not have."""
    if check and done.returncode:
        words = " ".join(map(str, done.args))
        raise ClusterError(f"{words[:200]} ended with {done.returncode}: {done.stderr or done.stdout}")
    return done
