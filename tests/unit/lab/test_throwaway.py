# SPDX-License-Identifier: Apache-2.0
"""What becomes of a throw-away machine, told with a stand-in for the program that boots it."""

from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.errors import ActionUndoneError, ObservationError, ZombiescopeError
from zombiescope.lab import incident
from zombiescope.lab.incident import MachineOrder, run_in_machine

ORDER = MachineOrder("6.1-v2", ("lab", "incident", "--unit"), 60)
STAND_IN = """
import pathlib, sys
asked = dict(zip(sys.argv[1:-3:2], sys.argv[2:-3:2]))
out = pathlib.Path(asked["--out"])
out.mkdir(parents=True, exist_ok=True)
(out / "live").write_text("    1.0 s  before: fast\\n    2.0 s  after: fa")
(out / "document.json").write_text('{"inside": "%s"}' % sys.argv[-1].replace('"', ""))
print("   1.0 s  before: fast")
print("error: it went wrong")
print("  why: too slow")
print("vm: status")
sys.exit(STATUS)
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tests" / "vm").mkdir(parents=True)
    monkeypatch.setattr(incident, "find_checkout", lambda: tmp_path)
    return tmp_path


def boot(checkout: Path, status: int) -> tuple[dict[str, object], list[str]]:
    (checkout / "tests" / "vm" / "run.py").write_text(STAND_IN.replace("STATUS", str(status)))
    said: list[str] = []
    return run_in_machine(ORDER, said.append, lambda _: None), said


def test_its_document_and_its_lines_come_back(checkout: Path) -> None:
    document, said = boot(checkout, 0)
    assert document == {"inside": "python3 -m zombiescope lab incident --unit --json >/out/document.json"}
    assert said == ["    1.0 s  before: fast"], "whole lines alone"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(3, ObservationError), (125, ObservationError), (124, ActionUndoneError), (4, ActionUndoneError)],
)
def test_how_it_failed_is_told(checkout: Path, status: int, kind: type[ZombiescopeError]) -> None:
    with pytest.raises(kind, match=r"error: it went wrong; why: too slow$"):
        boot(checkout, status)


def test_an_installed_package_has_no_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incident, "__file__", str(tmp_path / "lib/python/zombiescope/lab/incident.py"))
    with pytest.raises(ObservationError, match="part of the sources") as refusal:
        incident.find_checkout()
    assert "make .venv/.ready" in refusal.value.hint


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ObservationError, match=r"not installed: qemu-system-x86_64, mke2fs"):
        incident.find_checkout()
