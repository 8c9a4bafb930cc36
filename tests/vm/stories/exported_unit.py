# SPDX-License-Identifier: Apache-2.0
"""The unit that we export, under the machine's own systemd: installed with a configuration of the story's, asked, taken away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from zombiescope.errors import ObservationError
from zombiescope.history.reader import Remembered, remember
from zombiescope.presenters.systemd_unit import render_unit

_UNITS = Path("/run/systemd/system")
_STATE = "/var/lib/zombiescope"
_SECONDS = 240
"""Minutes on a loaded host: emulation is ten to forty times slower."""


class ExportedUnit:
    def __init__(self, name: str) -> None:
        self.name = f"{name}.service"
        self._config = Path(f"/run/{name}.toml")

    def configure(self, settings: str) -> None:
        self._config.write_text(settings, encoding="utf-8")

    def systemctl(self, *arguments: str) -> str:
        ran = subprocess.run(["systemctl", *arguments], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}{self.said()}"
        return ran.stdout

    def said(self) -> str:
        command = ["journalctl", "--no-pager", "-o", "cat", "-u", self.name]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def shown(self, name: str) -> str:
        return self.systemctl("show", "--value", f"--property={name}", self.name).strip()

    def install(self) -> None:
        command = f"{sys.executable} -m zombiescope"
        text = render_unit(command).replace(" agent\n", f" agent --config {self._config}\n", 1)
        text = text.replace("CPUQuota=20%\n", "")  # a fifth of an emulated core is a hundredth of a real one
        place = f'Environment="PYTHONPATH={os.environ["PYTHONPATH"]}"\n'
        (_UNITS / self.name).write_text(text.replace("[Service]\n", "[Service]\n" + place), encoding="utf-8")
        self.systemctl("daemon-reload")

    def remove(self) -> None:
        subprocess.run(["systemctl", "stop", self.name], check=False)
        (_UNITS / self.name).unlink()
        self._config.unlink()
        self.systemctl("daemon-reload")
        shutil.rmtree(_STATE, ignore_errors=True)


@contextmanager
def installed(name: str, settings: str) -> Iterator[ExportedUnit]:
    unit = ExportedUnit(name)
    unit.configure(settings)
    unit.install()
    try:
        yield unit
    finally:
        unit.remove()


def history() -> Remembered:
    try:
        return remember(_STATE.encode())
    except ObservationError:
        return Remembered([], [], ())


def wait_for(is_so: Callable[[], object]) -> bool:
    end = time.monotonic() + _SECONDS
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True
