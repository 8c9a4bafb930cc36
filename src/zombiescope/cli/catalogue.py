# SPDX-License-Identifier: Apache-2.0
"""The list of commands. A command is loaded when it is asked for, so that `scan` does not pay for the others."""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "scan": "How many zombies there are, where, how much memory they hold and what they cost.",
    "autopsy": "Each zombie: who made it, what holds it (down to the file), what would free it.",
    "doctor": "Watch for a few seconds, then say what is wrong, what causes it and what to do.",
    "plan": "What can be done: steps in order, with what each frees and risks and how to undo it.",
    "cores": "What each core spends its time on, and who keeps a saturated one busy.",
    "apply": "Carry out the plan. A dry run unless you say --yes; every change can be traced.",
    "undo": "Undo what an apply changed.",
    "actions": "What was applied here, when, and whether it can be undone.",
    "verify": "Check whether an apply held: the same numbers before and after.",
    "audit": "Services and agents: which can loop for ever, which nothing needs.",
    "check": "A gate for pipelines and monitoring: one verdict, many formats, an exit code.",
    "profile": "CPU time by moment and core: heat map, flame graph, differences.",
    "reap": "Free zombies that only page cache holds, within a budget (opt-in).",
    "agent": "Watch this host all the time: history, metrics for Prometheus, and the page.",
    "serve": "Show the page without an agent: this host, or any recording.",
    "fleet": "Many nodes: which are sick, what they share, since when, where to begin.",
    "top": "Live view: births, deaths, releases and zombies by maker.",
    "history": "What the agent recorded: growth, forecast, events, any past moment.",
    "export": "Print alert rules, a dashboard, systemd units, a policy and more.",
    "lab": "Make real zombies in a place of its own, to try things out, and remove them.",
    "record": "Save what was read to one file, without names, to replay elsewhere.",
    "self-check": "What of this tool works on this host, how, and why not.",
    "explain": "What a finding, a kind of pin, a metric or a gap means. Works offline.",
    "help": "Show the help of a command.",
    "licenses": "The parts of this build, their versions, licences and licence texts.",
    "completion": "Print a shell's completion script.",
}
DEFAULT = "scan"
