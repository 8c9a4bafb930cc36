# SPDX-License-Identifier: Apache-2.0
"""Writes docs/pictures/*.svg: what a terminal shows, of commands that anybody can repeat, over machines that were recorded with
real zombies on them (tests/scenarios/recorded, tests/cores/runs). No font and nothing else is fetched from outside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs/pictures"
LOOP = "tests/scenarios/recorded/loop-leaks.tar.gz"
COLUMNS = 92
PICTURES = {
    "doctor": f"zombiescope doctor --root {LOOP}",
    "autopsy": f"zombiescope autopsy --limit 1 --root {LOOP}",
    "cores": "zombiescope cores --seconds 6 --root tests/cores/runs/later-00-sockets.tar.gz",
}
"""By name, what is typed, in the folder of the repository."""

# Colours with enough contrast on the dark ground, dim text included.
_GROUND, _WORDS = (24, 26, 33), (222, 226, 233)
_NORMAL = [
    (60, 64, 76),
    (255, 123, 123),
    (126, 211, 133),
    (240, 200, 110),
    (130, 180, 255),
    (214, 160, 255),
    (110, 215, 215),
]
_BRIGHT = [
    (150, 156, 170),
    (255, 150, 150),
    (150, 230, 155),
    (250, 215, 135),
    (160, 200, 255),
    (228, 185, 255),
    (140, 230, 230),
]
THEME = TerminalTheme(_GROUND, _WORDS, [*_NORMAL, _WORDS], [*_BRIGHT, (255, 255, 255)])


def picture(command: str) -> str:
    words = command.split()
    told = subprocess.run(
        [sys.executable, "-m", "zombiescope", *words[1:]],
        cwd=ROOT,
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    ).stdout
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(told.rstrip()))
    return console.export_svg(
        title=command.partition(" --root")[0], theme=THEME, code_format=_format(), unique_id="zombiescope"
    )


def _format() -> str:
    """Rich's, without the fonts that a browser would fetch."""
    without = re.sub(r"\s*@font-face \{\{.*?\n    \}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return without.replace(
        "Fira Code, monospace", "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
    ).replace("    <!-- Generated with Rich https://www.textualize.io -->\n", "")


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        (TARGET / f"{name}.svg").write_text(picture(PICTURES[name]), encoding="utf-8")
        print(f"docs/pictures/{name}.svg: {PICTURES[name]}")


if __name__ == "__main__":
    main()
