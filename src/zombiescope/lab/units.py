# SPDX-License-Identifier: Apache-2.0
"""Real systemd units of a lab run: an agent that crash-loops, and what keeps its slice alive. Gone by `lab clean`, or a reboot.

The files lie in /run/systemd/system and bear the run's name, so that a lost journal hides none of them. A dash in a slice's name
is a level of the tree, and a run's name has no underscore: the one stands for the other there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from zombiescope.errors import ActionFailedError, ObservationError
from zombiescope.lab.names import LAB, is_run_name

FOLDER = "/run/systemd/system"
_DROP_INS = ("/etc/systemd/system", "/run/systemd/system", "/run/systemd/transient", "/run/systemd/system.control")
_FILE = re.compile(rf"{LAB}-(.+)-(?:unused-agent|anchor)\.service")
_SECONDS = 90

_SLICE = "[Unit]\nDescription=The lab's node: an agent, its dead, a neighbour\n[Slice]\nMemoryAccounting=yes\n"
_ANCHOR = """[Unit]
Description=Keeps the lab's slice alive
[Service]
Slice={slice}
MemoryAccounting=yes
ExecStart=/bin/sleep infinity
"""
_AGENT = """[Unit]
Description=An agent that nobody needs
StartLimitIntervalSec=0
[Service]
Slice={slice}
MemoryAccounting=yes
ExecStart=/bin/sh -c 'echo left >{folder}/life-$$$$; exit 1'
Restart=always
RestartSec=1
"""


def slice_of(run: str) -> str:
    return f"{LAB}-{run}".replace("-", "_") + ".slice"


def agent_of(run: str) -> str:
    return f"{LAB}-{run}-unused-agent.service"


def anchor_of(run: str) -> str:
    return f"{LAB}-{run}-anchor.service"


def require_systemd() -> None:
    if not os.path.isdir(FOLDER) or shutil.which("systemctl") is None:
        raise ObservationError(
            "cannot let a real unit crash-loop",
            "systemd is not the first process here",
            "leave out --unit, or: zombiescope lab incident --vm",
        )


def start_anchor(run: str) -> None:
    for name, text in (
        (slice_of(run), _SLICE),
        (anchor_of(run), _ANCHOR.format(slice=slice_of(run))),
    ):
        _write(name, text)
    systemctl("daemon-reload")
    systemctl("start", anchor_of(run))


def start_agent(run: str, folder: str) -> None:
    """It loops from now on, one life a second, and leaves a file in `folder` each time."""
    _write(agent_of(run), _AGENT.format(slice=slice_of(run), folder=folder))
    systemctl("daemon-reload")
    systemctl("start", "--no-block", agent_of(run))


def _write(name: str, text: str) -> None:
    with open(f"{FOLDER}/{name}", "w", encoding="ascii") as file:
        file.write(text)


def systemctl(*words: str) -> str:
    try:
        done = subprocess.run(
            ["systemctl", *words], capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise ActionFailedError(
            f"cannot {words[0]} a unit of the lab", "systemd does not answer", "systemctl status"
        ) from error
    if done.returncode != 0:
        why = done.stderr.strip()[-300:] or f"exit code {done.returncode}"
        raise ActionFailedError(f"cannot {words[0]} a unit of the lab ({words[-1]})", why, "zombiescope lab clean")
    return done.stdout


def runs_with_units() -> set[str]:
    try:
        names = os.listdir(FOLDER)
    except OSError:
        return set()
    return {found[1] for name in names if (found := _FILE.fullmatch(name)) and is_run_name(found[1])}


def stop_agent(run: str) -> None:
    """It must be at rest before its cgroups are removed; the anchor stays, and with it the slice they lie below."""
    if os.path.exists(f"{FOLDER}/{agent_of(run)}"):
        systemctl("stop", agent_of(run))


def remove_units(run: str) -> None:
    """Stopped, forgotten, and their files and drop-ins gone."""
    names = [name for name in (agent_of(run), anchor_of(run), slice_of(run)) if os.path.exists(f"{FOLDER}/{name}")]
    if names:
        systemctl("stop", *names)
    for name in (agent_of(run), anchor_of(run), slice_of(run)):
        for folder in _DROP_INS:
            shutil.rmtree(f"{folder}/{name}.d", ignore_errors=True)
            _unlink(f"{folder}/{name}")
    if names:
        systemctl("daemon-reload")


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
