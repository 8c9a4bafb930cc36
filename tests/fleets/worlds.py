# SPDX-License-Identifier: Apache-2.0
"""Fleets whose truth is known: a cause (image and kernel together, hidden behind a zone), a decoy, noise; or no cause at all.

`numbers` is the same for every consumer: documents, a table, or what a metrics server stores over time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zombiescope.facts.fleet import Fleet, FleetNode

KINDS = ("pair", "image", "kernel-behind-pool", "two-causes", "rare", "weak", "null", "null-busy")
CAUSES: dict[str, list[tuple[str, ...]]] = {
    "pair": [("image", "img-2024", "kernel", "5.15.0-1050")],
    "image": [("image", "img-2024")],
    "kernel-behind-pool": [("kernel", "5.15.0-1050")],
    "two-causes": [("image", "img-2024"), ("agent", "b")],
    "rare": [("image", "img-rare")],
    "weak": [("image", "img-2024")],
}
HELD_OUT = range(1000, 1010)
"""Seeds of the worlds that nobody looked at while the limits were chosen."""


@dataclass(frozen=True)
class World:
    nodes: tuple[FleetNode, ...]
    causes: tuple[frozenset[tuple[str, str]], ...]
    began_at: float

    def fleet(self) -> Fleet:
        return Fleet(self.began_at, "a world", self.nodes)


def world(seed: int, size: int, kind: str = "pair", now: float = 1_800_000_000.0) -> World:
    chance = random.Random(seed)
    began = now - chance.uniform(2, 5) * 86400
    causes = CAUSES.get(kind, [])
    bad_share, base_share = {"weak": (0.25, 0.04), "null-busy": (0.3, 0.3)}.get(kind, (0.75, 0.03))
    nodes = []
    for number in range(size):
        labels = _labels(chance, kind)
        is_caused = any(_has(labels, cause) for cause in causes)
        is_sick = chance.random() < (bad_share if is_caused else base_share)
        zombies = chance.randint(2_000, 40_000) if is_sick else int(chance.expovariate(1 / 120)) % 900
        growth = chance.uniform(150, 900) if is_sick else chance.uniform(-5, 5)
        nodes.append(FleetNode(f"node-{number:05d}", labels, zombies, 240, zombies + 240, growth, resets=0.0))
    told = tuple(frozenset(zip(cause[::2], cause[1::2], strict=True)) for cause in causes)
    return World(tuple(nodes), told, began)


def _has(labels: dict[str, str], cause: Sequence[str]) -> bool:
    return all(labels.get(name) == value for name, value in zip(cause[::2], cause[1::2], strict=True))


def _labels(chance: random.Random, kind: str) -> dict[str, str]:
    """Zone c runs more of the guilty image and kernel, so that it looks guilty."""
    zone = chance.choice("abc")
    heavy = 4 if zone == "c" else 1
    images = {"img-2024": heavy, "img-2025": 3, "img-2026": 3, "img-rare": 0.2}
    kernels = {"5.15.0-1050": heavy, "6.1.90": 2, "6.8.0": 2}
    pool = "batch" if zone == "c" and chance.random() < 0.8 else chance.choice(("web", "gpu", "batch"))
    if kind == "kernel-behind-pool" and pool == "batch":
        kernels["5.15.0-1050"] = 12
    return {
        "zone": zone,
        "image": chance.choices(list(images), list(images.values()))[0],
        "kernel": chance.choices(list(kernels), list(kernels.values()))[0],
        "pool": pool,
        "instance_type": chance.choice(("m5", "p4d", "g5", "c6i", "r6i")),
        "rack": f"r{chance.randrange(40)}",
        "agent": chance.choice("abcd"),
    }


def history(
    one: World, now: float, seconds: float, step: float
) -> Iterator[tuple[FleetNode, list[tuple[float, float]]]]:
    """Zombies of each node over time: sick ones have grown since the world's beginning, the others stand."""
    count = int(seconds / step)
    for node in one.nodes:
        last = float(node.zombies or 0)
        is_sick = last >= 1000
        times = [now - step * (count - 1 - number) for number in range(count)]
        span = now - one.began_at
        yield (
            node,
            [(at, last * max(at - one.began_at, 0) / span + 40 if is_sick and at < now else last) for at in times],
        )
