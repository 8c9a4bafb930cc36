# SPDX-License-Identifier: Apache-2.0
"""The list of commands. A command is loaded when it is asked for, so that `scan` does not pay for the others."""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "scan": "How many zombies, below which parents, how many bytes, what they cost.",
    "autopsy": "Every zombie: former path, maker, pins, the file that pins it, what would free it.",
    "doctor": "Look for a short window: what is wrong, on what evidence, where it comes from, what to do.",
    "plan": "What could be done about it: steps in order, what each frees and risks, how it is undone.",
    "cores": "A strip per core over a window: user, kernel, softirq, steal; who burns a saturated one.",
    "apply": "Do what the plan says: a dry run unless --yes; journal, consent, validation window.",
    "undo": "Take back what an apply changed.",
    "actions": "What was applied here, when, and whether it can be undone.",
    "verify": "Did it hold? The same numbers before and after, over a window.",
    "audit": "Services and agents: which can loop for ever, which nothing needs.",
    "check": "A gate: one verdict, many formats, exit code.",
    "profile": "Processor time by moment and core: heat map, flame graph, what changed.",
    "reap": "Opt-in: free zombies that only page cache keeps, within a budget.",
    "agent": "Follow this host: ledger, history, metrics for Prometheus.",
    "fleet": "Many nodes: which are sick, what they share, since when, where to begin.",
    "serve": "The page over everything: this host without an agent, or any recording.",
    "top": "Births, deaths, releases and zombies by maker, live.",
    "history": "What the agent remembers: series, events, growth, forecast, any past moment.",
    "export": "Print rules, a dashboard, units and drop-ins, an agent policy, a plugin, a kubelet fragment, a script.",
    "lab": "Make real zombies in a subtree of its own, and remove them.",
    "record": "Keep what was read in one file, scrubbed, to replay elsewhere.",
    "self-check": "What of this tool works on this host, how, and why not.",
    "explain": "What a finding, a kind of pin, a metric or a gap means. Works offline.",
    "help": "The help of a command.",
    "licenses": "The parts of this build, their versions, licences and licence texts.",
    "completion": "Print a shell's completion script.",
}
DEFAULT = "scan"
