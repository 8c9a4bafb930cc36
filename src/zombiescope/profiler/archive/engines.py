# SPDX-License-Identifier: Apache-2.0
"""Who counts the pieces of a question: this machine, or the machines of a Ray cluster. The parts come back in their order, so that
what is made of them is the same."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from zombiescope.errors import ObservationError, UsageError
from zombiescope.facts.names import quiet
from zombiescope.profiler.archive.catalogue import Groups
from zombiescope.profiler.archive.counting import Asked, Part, Piece, count_piece
from zombiescope.profiler.stacks.across_nodes import AGAINST, WHERE

SAMPLES_OF_A_PIECE = 1_000_000
_MOST_HERE = 4
_SECONDS_TO_CONNECT = 10
_ERRORS = 40
"""A level of `logging`, which nothing else here needs."""
_AHEAD = 4
"""Tasks per processor of a cluster that wait or have answered and were not taken."""
Engine = Callable[[Asked, Sequence[Piece]], Iterator[Part]]


def cut(groups: Groups) -> list[Piece]:
    """Captures in pieces of about as many samples; a long one is alone."""
    pieces: list[Piece] = []
    taken: list[Any] = []
    samples = 0
    sides = [(each, WHERE) for each in groups.where] + [(each, AGAINST) for each in groups.against]
    for entry, side in sides:
        if taken and samples + entry.samples > SAMPLES_OF_A_PIECE:
            pieces.append(Piece(tuple(taken)))
            taken, samples = [], 0
        taken.append((entry, side))
        samples += entry.samples
    return [*pieces, Piece(tuple(taken))] if taken else pieces


def count_here(asked: Asked, pieces: Sequence[Piece]) -> Iterator[Part]:
    """A few at a time: what waits to be taken stays small."""
    at_once = max(1, min(_MOST_HERE, os.cpu_count() or 1))
    left = iter(pieces)
    with ThreadPoolExecutor(at_once) as pool:
        waiting = [pool.submit(count_piece, asked, piece) for piece in islice(left, 2 * at_once)]
        while waiting:
            part = waiting.pop(0).result()
            waiting += [pool.submit(count_piece, asked, piece) for piece in islice(left, 1)]
            yield part


def ray_engine(address: str) -> Engine:
    """Tasks over files: a task reads its captures itself, so the archive must be within reach of every machine of the cluster."""
    try:
        import ray  # noqa: PLC0415 (not of this package: whoever has a cluster has it)
    except ImportError as error:
        raise UsageError(
            "cannot ask a Ray cluster",
            "ray is not installed",
            "pip install ray as the cluster has it, or --engine duckdb",
        ) from error

    def count(asked: Asked, pieces: Sequence[Piece]) -> Iterator[Part]:
        import zombiescope  # noqa: PLC0415

        # The package goes along, so that every machine counts by the same program.
        surroundings = {"py_modules": [zombiescope]}
        try:
            _knock(address)
            ray.init(address=address, runtime_env=surroundings, log_to_driver=False, logging_level=_ERRORS)
        except (RuntimeError, ValueError, OverflowError, OSError) as error:
            raise ObservationError(
                f"cannot reach a Ray cluster at {address}",
                quiet(str(error).splitlines()[0][:200]),
                "name one with --ray HOST:PORT, or ask with --engine duckdb",
            ) from error
        try:
            yield from _ordered(ray, asked, pieces)
        finally:
            ray.shutdown()

    return count


def _knock(address: str) -> None:
    """Ray itself waits for minutes where nobody listens."""
    host, mark, port = address.removeprefix("ray://").rpartition(":")
    if mark and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_CONNECT).close()


def _ordered(ray: Any, asked: Asked, pieces: Sequence[Piece]) -> Iterator[Part]:
    """A task that a lost machine took along is given to another by Ray itself."""
    task = ray.remote(num_cpus=1, max_retries=3, scheduling_strategy="SPREAD")(count_piece)
    ahead = max(8, round(_AHEAD * ray.cluster_resources().get("CPU", 1)))
    left, waiting = iter(pieces), list[Any]()
    waiting += [task.remote(asked, piece) for piece in islice(left, ahead)]
    while waiting:
        first = waiting.pop(0)
        try:
            part = ray.get(first)
        except ray.exceptions.RayError as error:
            why = quiet((str(error).strip().splitlines() or ["no reason given"])[-1][:200])
            hint = "every machine of the cluster needs numpy, pyarrow and duckdb, and must reach the archive"
            raise ObservationError("cannot count on the Ray cluster", why, hint) from error
        waiting += [task.remote(asked, piece) for piece in islice(left, 1)]
        yield part
