# SPDX-License-Identifier: Apache-2.0
"""`zombiescope export npd|kubelet|sh`: files that ship with the package, printed as they are."""

from __future__ import annotations

import click

from zombiescope.cli.answer import Answer, PlainAnswer
from zombiescope.pipeline.audit import shipped_text


@click.command()
def npd() -> Answer:
    """A custom plugin of node-problem-detector: condition ZombieMemcg from `zombiescope check`."""
    return _shipped("npd.json")


@click.command()
def kubelet() -> Answer:
    """A fragment of KubeletConfiguration with fields that exist."""
    return _shipped("kubelet.yaml")


@click.command()
def sh() -> Answer:
    """A shell script for hosts without Python: the counts done right and the quick audit."""
    return _shipped("quick-audit.sh")


def _shipped(name: str) -> Answer:
    return PlainAnswer(shipped_text(name).rstrip("\n"))
