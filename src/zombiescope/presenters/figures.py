# SPDX-License-Identifier: Apache-2.0
"""What a person reads in place of raw values: numbers, of which one that we do not have is a question mark; and what gaps, pins and
evidence are called in a sentence, for a person never has to read an id or a JSON path."""

import re
from fnmatch import fnmatchcase

from zombiescope.facts.names import shown_text
from zombiescope.facts.remedies import remedy_of

UNKNOWN = "?"


def count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Bytes in powers of 1024, three digits."""
    if value is None:
        return UNKNOWN
    amount, units = float(value), iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while amount >= 1000 and (following := next(units, None)):
        amount, unit = amount / 1024, following
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.3g} {unit}"


def clean(text: str) -> str:
    """One printable line, whatever a name or a file of somebody's held."""
    return text if text.isprintable() else shown_text(text)


def duration(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    if seconds < 0.9995e-3:  # what rounds up to a thousand of a unit is one of the next
        return f"{seconds * 1e6:.0f} us"
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{hours:.1f} h" if hours < 48 else f"{days:.1f} days"


_GAPS: tuple[tuple[str, str], ...] = (
    ("recorder", "profiles recorded all the time"),
    ("probe.*", "a number that the agent follows"),
    ("cost.reclaim_pass_seconds", "the time of one reclaim pass"),
    ("cost.sweep*", "the time of one statistics sweep"),
    ("cost*", "the cost in kernel memory"),
    ("parents[].bytes*", "memory by parent"),
    ("parents*", "zombies by parent"),
    ("handed_on*", "memory left to live parents"),
    ("host.*", "the machine's name and kernel"),
    ("node.*", "the machine's size"),
    ("memcg*", "the number of zombies"),
    ("visible_leak*", "empty directories"),
    ("growth*", "growth"),
    ("pods*", "pods"),
    ("cohorts[].since", "since when a cohort is sick"),
    ("cohorts*", "some nodes"),
    ("nodes[].*", "some numbers of some nodes"),
    ("nodes*", "some nodes"),
    ("history", "the history"),
    ("series", "a part of the history"),
    ("moment", "that moment"),
    ("marks", "marks in time"),
    ("tier", "a better way to look"),
    ("totals*", "totals"),
    ("zombies[].pins[].holder", "who holds them"),
    ("zombies[].pins*", "what holds them"),
    ("zombies[].pages*", "pages by kind"),
    ("zombies[].died_at", "when they died"),
    ("zombies[].born_at", "when they were made"),
    ("zombies[].*", "details of each zombie"),
    ("zombies", "the zombies one by one"),
    ("remains", "what holds the zombies"),
    ("pinned_files*", "files that hold zombies"),
    ("freed*", "what was freed"),
    ("reconciliation*", "whether the counts agree"),
    ("findings", "services"),
    ("units[].state", "the state of services"),
    ("units[].restarts*", "restarts of services"),
    ("units*", "services"),
    ("services", "services"),
    ("restarts", "restarts"),
    ("timeline*", "the timeline"),
    ("saturated*", "whether a core was saturated"),
    ("stretches*", "who held the core"),
    ("cores*", "the cores"),
    ("softirq*", "how long softirqs waited"),
    ("kernel_log", "the kernel log"),
    ("resets", "network card resets"),
    ("nic_*", "network card counters"),
    ("reclaim", "reclaim"),
    ("sweepers", "who reads statistics"),
    ("sweeps", "statistics sweeps"),
    ("real_time_tasks", "real-time tasks"),
    ("pressure.throttled", "CPU quotas"),
    ("pressure*", "memory pressure"),
    ("events*", "events"),
    ("births", "births of cgroups"),
    ("releases", "releases of cgroups"),
    ("flows", "births and deaths of cgroups"),
    ("lost", "how many events were missed"),
    ("makers*", "numbers by maker"),
    ("total.*", "totals"),
    ("seconds*", "how long cgroups live"),
    ("steps[].expected*", "what each step frees"),
    ("steps[].change.files", "which files are in use"),
    ("steps*", "details of the steps"),
    ("levers*", "which steps are possible"),
    ("plan", "the plan"),
    ("action*", "past actions"),
    ("verify", "whether it held"),
    ("before*", "the numbers before"),
    ("after*", "the numbers after"),
    ("samples*", "samples"),
    ("frames*", "names of functions"),
    ("correlations*", "whether failures follow"),
    ("reasons*", "a part of the verdict"),
    ("not_judged*", "how many services could not be judged"),
    ("audit", "the audit"),
    ("counts*", "counts of the lab"),
    ("runs*", "runs of the lab"),
)
_FILES = "files: "
"""Before the file that could not be read."""
_KEYS = {
    "sysv_shm": "System V shared memory",
    "shared_anon": "shared anonymous memory",
    "anon": "anonymous memory",
    "unevictable": "locked memory",
    "child": "a dead child cgroup",
    "task": "a process",
    "namespace": "a namespace",
}
_UNIT_FACT = re.compile(r"(.+\.(?:service|scope|slice|socket|timer|mount|path|target))\.([a-z_]+)")
_KEY = re.compile(r"\[([^\]]*)\]")


def words_of(key: str) -> str:
    """A kind of pin, as a person says it."""
    return _KEYS.get(str(key), str(key).replace("_", " "))


def tried_words(key: str) -> str:
    """What is often tried and does not help: a remedy, or a file of the kernel by its own name."""
    remedy = remedy_of(key)
    return remedy.doing if remedy else key


def gap_subject(fact: str) -> str:
    """What is missing, in words. A part of a document inside another is called what it is called alone."""
    if fact.startswith(_FILES):
        return fact.removeprefix(_FILES)
    parts = fact.split(".")
    for number in range(len(parts)):
        name = ".".join(parts[number:])
        for pattern, words in _GAPS:
            if fnmatchcase(name, pattern.replace("[", "[[]")):
                return words
    return fact.replace("_", " ").replace("[]", "")


def fact_label(fact: str) -> str:
    """The key of a piece of evidence as words: `core[3].kernel_share` is `core 3 kernel share`."""
    of_unit = _UNIT_FACT.fullmatch(fact)
    if of_unit:
        return f"{of_unit[1]} {_plain(of_unit[2])}"
    words: list[str] = []
    end = 0
    for match in _KEY.finditer(fact):
        words += [_plain(fact[end : match.start()]), match[1]]
        end = match.end()
    return " ".join(" ".join([*words, _plain(fact[end:])]).split())


def _plain(key: str) -> str:
    return key if " " in key else key.replace("_", " ").replace(".", " ")
