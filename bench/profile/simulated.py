# SPDX-License-Identifier: Apache-2.0
"""Hundreds of moments planted in real captures: simulated.py RING TAKES [SEED [RINGS]].

RING is a folder of captures that a recorder stored on a busy machine, TAKES a folder where what `more_plants.py` and `planting.py`
do is kept as it was recorded here (made when it is empty; root). For each ring 32 captures in a row are drawn, and ten moments are
put into ten of them: which work, under which name, in which cgroup, on which core, how long, how much of it, and what is asked for
is drawn too. Half of the processes work a little in every capture, as services do. Half of the questions that name neither process
nor cgroup have a job beside them, which does the same every second to eighth capture, often more of it. Found first: the first
answer names the capture and a stretch that overlaps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.profile.more_plants import MORE
from bench.profile.planted import TOLD, cgroup
from bench.profile.planting import HEAD, SETS, TAIL, Plant
from bench.profile.transplant import Part, Take, put_into, take_of

from zombiescope.pipeline.profile_events import cause_words
from zombiescope.profiler.asking import open_capture
from zombiescope.profiler.files import store
from zombiescope.profiler.files.beside import write_beside
from zombiescope.profiler.files.summing import Summing
from zombiescope.profiler.finding import find_in_folder
from zombiescope.profiler.formats.capture_file import encode
from zombiescope.profiler.stacks.capture import KERNEL_MODE, Capture, is_kernel_file, matches
from zombiescope.profiler.stacks.searching import Question

CAPTURES, PLANTS = 32, 10
_MOSTLY = 0.8
_TRIES = 200
_SHORTEST = 5.0


class Planted(NamedTuple):
    what: str
    part: Part
    capture: int
    question: Question
    steady: float
    """What it takes in every capture."""
    every: int
    """In so many captures another process does the same, as a job does that comes back; 0: none does."""


def load(ring: str) -> list[Capture]:
    folder = os.fsencode(ring)
    return [open_capture(folder, os.fsdecode(one.path)).capture for one in store.entries(folder) if one.about]


def draw(dice: np.random.Generator, works: dict[str, tuple[Take, Question]], captures: list[Capture]) -> list[Planted]:
    """None is what another one is asked for by."""
    found: list[Planted] = []
    places = dice.choice(len(captures), PLANTS, replace=False).tolist()
    for _ in range(_TRIES):
        if not places:
            break
        name = str(dice.choice(sorted(works)))
        one = draw_one(dice, name, *works[name], places[-1], captures[places[-1]])
        if not any(fits(each.question, one.part) or fits(one.question, each.part) for each in found):
            found.append(one)
            places.pop()
    return found


def draw_one(
    dice: np.random.Generator, name: str, take: Take, asked: Question, place: int, capture: Capture
) -> Planted:
    length, cores = capture.seconds, np.unique(capture.cpu)
    seconds = float(min(np.exp(dice.uniform(0, np.log(20))), length - 1))
    process = f"p-{name.replace(' ', '-')}"[:15]
    cgroup = f"/made.slice/{process}.service" if dice.random() < 0.5 else ""
    core = int(dice.choice(cores)) if dice.random() < 0.7 else None
    share = float(dice.uniform(0.3, 1.0)) / (1 if core is not None else len(cores))
    part = Part(take, process, cgroup, core, float(dice.uniform(0, length - seconds)), seconds, share)
    question = ask(dice, asked, part)
    if not question.process and dice.random() < 0.3:  # one of many of that name
        part = part._replace(process=str(dice.choice([name for name in capture.comms if name])))
    if question.core and len(question.asked()) == 1:  # a core that is held
        seconds = max(seconds, 2.0)
        part = part._replace(share=0.98, seconds=seconds, begin=float(dice.uniform(0, length - seconds)))
    steady = float(dice.uniform(0.002, 0.02)) if dice.random() < 0.5 else 0.0
    every = int(dice.integers(2, 9)) if dice.random() < 0.5 and not question.process and not question.cgroup else 0
    return Planted(name, part, place, question, steady, every)


def fits(question: Question, part: Part) -> bool:
    names = {name for stack in part.take.stacks for name, _ in stack}
    kernel = {name for stack in part.take.stacks for name, file in stack if is_kernel_file(file)}
    causes = {cause_words()[0](name) or "" for name in kernel} if question.cause else set()
    of = {
        "function": names,
        "cause": causes,
        "process": {part.process},
        "cgroup": {part.cgroup},
        "core": {question.core if part.core is None else str(part.core)},
    }
    return all(any(matches(name, glob) for name in of[kind]) for kind, glob in question.asked())


def ask(dice: np.random.Generator, asked: Question, part: Part) -> Question:
    """As it stands, or with more known, or by its place alone."""
    known = dice.random()
    if asked.process:
        asked = asked._replace(process=part.process)
    if known < 0.15 and part.cgroup:
        return Question(cgroup=part.cgroup)
    if known < 0.25 and part.core is not None and in_kernel(part.take) > _MOSTLY:
        return Question(core=str(part.core))
    if known < 0.35:
        return Question(process=part.process)
    if known < 0.45 and part.core is not None:
        return asked._replace(core=str(part.core))
    if known < 0.55 and part.cgroup:
        return asked._replace(cgroup=part.cgroup)
    return asked


def in_kernel(take: Take) -> float:
    """Which share of its time."""
    counts = np.array(take.counts)
    return float(counts[np.array(take.modes) == KERNEL_MODE].sum() / counts.sum())


def make(folder: str, captures: list[Capture], planted: list[Planted], dice: np.random.Generator) -> None:
    summing = Summing(cause_words()[0])
    for number, capture in enumerate(captures):
        parts = [
            each.part._replace(begin=0.0, seconds=capture.seconds + 1, share=each.steady, core=None)
            for each in planted
            if each.steady
        ]
        parts += [each.part for each in planted if each.capture == number]
        parts += [job(each, capture, dice) for each in planted if each.every and number % each.every == 1]
        mixed = put_into(capture, parts, dice)
        path = store.save(os.fsencode(folder), f"part-{number:02}".encode(), encode(mixed))
        write_beside(path, summing.summary_of(mixed))


def job(planted: Planted, capture: Capture, dice: np.random.Generator) -> Part:
    """Often longer and more than what was planted."""
    seconds = min(float(dice.uniform(3, 5)), capture.seconds)
    begin = float(dice.uniform(0, capture.seconds - seconds))
    share = float(dice.uniform(0.6, 0.8))
    return Part(planted.part.take, f"job-{planted.what}"[:15], "", planted.part.core, begin, seconds, share)


def record(folder: Path) -> None:
    """What each work does, alone in a capture of its own."""
    with cgroup() as group:
        plants = [plant for ten in SETS.values() for plant in ten(group).plants]
        for number, plant in enumerate([*plants, *(Plant(*each) for each in MORE)]):
            captures, process = folder / f"{number:03}", f"plant-{plant.what}"[:15]
            words = [sys.executable, "-m", "zombiescope", "profile", "record", "--with", "own", "--rate", "199"]
            words += ["--seconds", "5", "--segment", "5", "--captures", str(captures)]
            recorder = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while not list(captures.glob("*.recording")):
                time.sleep(0.1)
            script = [sys.executable, "-c", HEAD + plant.work + TAIL, process, "4", group, str(folder)]
            subprocess.run(script, check=True, stdout=subprocess.DEVNULL)
            recorder.wait()
            told = {"what": plant.what, "process": process, "question": plant.question._asdict()}
            (captures / TOLD).write_text(json.dumps(told))


def works_of(folder: Path) -> dict[str, tuple[Take, Question]]:
    found = {}
    for path in sorted(folder.glob(f"*/{TOLD}")):
        told = json.loads(path.read_text())
        question = Question(**{**told["question"], "cgroup": "", "core": ""})
        takes = [take for one in load(str(path.parent)) if (take := take_of(one, told["process"])) is not None]
        if takes:  # one that mostly waits may have no sample
            found[told["what"]] = takes[0], question if question.asked() else Question(process=told["process"])
    return found


def judged(folder: str, planted: list[Planted]) -> int:
    right = 0
    for each in planted:
        hits = find_in_folder(os.fsencode(folder), each.question, cause_words()[0]).hits
        begin, end = each.part.begin, each.part.begin + each.part.seconds
        first = hits[0] if hits else None
        is_right = (
            first is not None and first.name == f"part-{each.capture:02}" and first.at < end and first.until > begin
        )
        right += is_right
        if not is_right:
            asked = ", ".join(f"{kind} {glob}" for kind, glob in each.question.asked())
            said = "nothing" if first is None else f"{first.name} at {first.at:g} s"
            print(
                f"{each.what} for {each.part.seconds:.1f} s, {each.part.share:.2f} of a core (asked for {asked}): {said}",
                flush=True,
            )
    return right


def main() -> None:
    given = sys.argv[1:]
    takes, seed, rings = Path(given[1]), int(given[2]) if given[2:] else 0, int(given[3]) if given[3:] else 12
    if not list(takes.glob(f"*/{TOLD}")):
        record(takes)
    every = [one for one in load(given[0]) if one.seconds > _SHORTEST]
    works = works_of(takes)
    right = many = 0
    for ring in range(rings):
        dice = np.random.default_rng([seed, ring])
        at = int(dice.integers(0, max(1, len(every) - CAPTURES + 1)))
        captures = every[at : at + CAPTURES]
        planted = draw(dice, works, captures)
        with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as folder:
            make(folder, captures, planted, dice)
            right += judged(folder, planted)
        many += len(planted)
    share = right / many
    error = (share * (1 - share) / many) ** 0.5
    print(
        f"{right} of {many} found first: {share:.3f} ± {error:.3f} (at least 0.9); {len(works)} works, {len(every)} captures"
    )


if __name__ == "__main__":
    main()
