# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs: the Markdown files outside docs/ become pages of the site too, and links lead to pages, not to paths.

A link to a file that is no page (a source, a configuration) becomes its name: the site does not carry the sources.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = {
    "README.md": "project/readme.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "SECURITY.md": "project/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "tests/vm/README.md": "project/tests-vm.md",
    "tests/kubernetes/README.md": "project/tests-kubernetes.md",
    "tests/scenarios/README.md": "project/tests-scenarios.md",
    "tests/machines/README.md": "project/tests-machines.md",
    "tests/schemas/README.md": "project/tests-schemas.md",
}
"""Files of the repository, and the page that each becomes."""
_INSIDE = {page: path for path, page in OUTSIDE.items()}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    return _outside_code(markdown, lambda text: _LINK.sub(lambda link: _link_of_site(link, page.file.src_uri), text))


def _outside_code(markdown: str, change: Any) -> str:
    """Fences stay as they are; code spans too, unless they are the words of a link."""
    kept, last = [], 0
    for code in re.finditer(r"^```.*?^```$", markdown, re.MULTILINE | re.DOTALL):
        kept += [change(markdown[last : code.start()]), code[0]]
        last = code.end()
    return "".join([*kept, change(markdown[last:])])


def _link_of_site(link: re.Match[str], page: str) -> str:
    sign, words, target = link.groups()
    path, hash_sign, anchor = target.partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return link[0]
    home = _INSIDE.get(page, f"docs/{page}")
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(home), path))
    if (ROOT / reached).is_dir() and (ROOT / reached / "README.md").exists():
        reached = posixpath.join(reached, "README.md")
    target_page = OUTSIDE.get(reached) or (reached.removeprefix("docs/") if reached.startswith("docs/") else None)
    if target_page is None:
        return words if (ROOT / reached).exists() else link[0]
    return f"{sign}[{words}]({posixpath.relpath(target_page, posixpath.dirname(page) or '.')}{hash_sign}{anchor})"
