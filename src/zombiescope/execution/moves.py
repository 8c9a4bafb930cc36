# SPDX-License-Identifier: Apache-2.0
"""Changes that can be taken back: each journalled with what was there before, then done."""

import base64
import os

from zombiescope.execution.journal import Journal, Write
from zombiescope.execution.surprise import SurpriseError, refusing
from zombiescope.facts.names import shown
from zombiescope.host.removal import Found
from zombiescope.host.writes import Writer

_UP = ("active", "activating", "reloading", "deactivating")


class Hands:
    """A writer and the journal it must speak to first."""

    def __init__(self, writer: Writer, journal: Journal) -> None:
        self.writer, self.journal = writer, journal
        self.step = 0

    def place_link(self, path: bytes, target: bytes) -> None:
        before = self._look(path)
        if before.kind == "link" and before.content == target:
            return
        if before.kind != "absent":
            raise SurpriseError(f"cannot place the link {shown(path)}", f"there is a {before.kind} already")
        self._make_folders(path)
        number = self._intend(Write.PLACE_LINK, path, before, target=_text(target))
        with refusing(f"cannot place the link {shown(path)}"):
            self.writer.place_link(path, target)
        self._placed(number, path)

    def remove_link(self, path: bytes) -> None:
        before = self._look(path)
        if before.kind != "link":
            why = "it is gone already" if before.kind == "absent" else f"it is a {before.kind}"
            raise SurpriseError(f"cannot remove the link {shown(path)}", why)
        number = self._intend(Write.REMOVE_LINK, path, before)
        with refusing(f"cannot remove the link {shown(path)}"):
            self.writer.remove(path)
        self.journal.done(number)

    def place_file(self, path: bytes, content: bytes) -> None:
        before = self._look(path)
        if before.kind not in ("absent", "file"):
            raise SurpriseError(f"cannot place the file {shown(path)}", f"there is a {before.kind} already")
        if before.kind == "file" and before.content == content:
            return
        self._make_folders(path)
        number = self._intend(Write.PLACE_FILE, path, before, content=_text(content))
        mine = before._replace(content=content, mtime_ns=0)
        if before.kind == "absent":
            mine = Found("file", content, 0o644, os.geteuid(), os.getegid())
        with refusing(f"cannot place the file {shown(path)}"):
            self.writer.place_file(path, mine)
        self._placed(number, path)

    def set_value(self, path: bytes, value: bytes) -> None:
        before = self._read(path)
        number = self.journal.intend(
            self.step, Write.SET_FILE, path=shown(path), before=_text(before), value=_text(value)
        )
        with refusing(f"cannot write to {shown(path)}"):
            self.writer.set_file(path, value)
        self.journal.done(number, after=_text(self._read(path)))  # the kernel may have rounded it

    def stop_unit(self, unit: str) -> str:
        state = self.unit_state(unit)
        if state["LoadState"] == "not-found":
            raise SurpriseError(f"cannot stop {unit}", "the unit has vanished", "zombiescope plan looks again")
        if state["ActiveState"] not in _UP:
            return f"it was {state['ActiveState']} already"
        number = self.journal.intend(self.step, Write.STOP_UNIT, unit=unit, before=state["ActiveState"])
        if complaint := self.systemctl("stop", unit):
            raise SurpriseError(f"cannot stop {unit}", complaint)
        if (after := self.unit_state(unit)["ActiveState"]) in _UP:
            raise SurpriseError(f"cannot stop {unit}", f"systemd says it is {after} after stopping it")
        self.journal.done(number)
        return f"it was {state['ActiveState']} and is {after}"

    def reload(self) -> None:
        if complaint := self.systemctl("daemon-reload"):
            raise SurpriseError("cannot make systemd read its files again", complaint)

    def unit_state(self, unit: str) -> dict[str, str]:
        with refusing("cannot ask systemd"):
            ran = self.writer.systemctl("show", "--property=LoadState,ActiveState,SubState", unit)
        said = dict(line.split("=", 1) for line in ran.output.decode("utf-8", "replace").splitlines() if "=" in line)
        if "ActiveState" not in said:
            raise SurpriseError(
                "cannot ask systemd",
                ran.complaint.splitlines()[0] if ran.complaint else "systemctl gave no answer",
                "is systemd running here?",
            )
        return {"LoadState": "", "SubState": "", **said}

    def systemctl(self, *words: str) -> str:
        """Empty, or systemd's complaint."""
        with refusing(f"cannot {words[0]} {words[-1]}"):
            ran = self.writer.systemctl(*words)
        return "" if ran.status == 0 else (ran.complaint.splitlines() or [f"systemctl ended with {ran.status}"])[0]

    def _make_folders(self, path: bytes) -> None:
        missing = []
        folder = os.path.dirname(path)
        while self._look(folder).kind == "absent":
            missing.append(folder)
            folder = os.path.dirname(folder)
        for folder in reversed(missing):
            number = self._intend(Write.MAKE_FOLDER, folder, Found("absent"))
            with refusing(f"cannot make the folder {shown(folder)}"):
                self.writer.make_folder(folder)
            self.journal.done(number)

    def _intend(self, do: Write, path: bytes, before: Found, **facts: str) -> int:
        return self.journal.intend(self.step, do, path=shown(path), before=before.as_plain(), **facts)

    def _placed(self, number: int, path: bytes) -> None:
        self.journal.done(number, after=self._look(path).as_plain(with_content=False))  # the line before has it

    def _read(self, path: bytes) -> bytes:
        with refusing(f"cannot read {shown(path)}"):
            return self.writer.read_value(path)

    def _look(self, path: bytes) -> Found:
        with refusing(f"cannot look at {shown(path)}"):
            return self.writer.look(path)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
