# SPDX-License-Identifier: Apache-2.0
"""The page as one file that needs no server: its styles, its modules joined into one script, and an island for documents.

The modules are joined as they are, by the few forms of import and export that they keep to: there is no build step. And the
doctor's answer as such a file, with its documents inside, for a browser that asks nobody.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable

from zombiescope import __version__
from zombiescope.analysis.day import Day
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import quiet_lines
from zombiescope.presenters.doctor_report import Report, render_doctor_markdown, render_follows, render_timeline
from zombiescope.presenters.document import Json, render_page_host
from zombiescope.presenters.now_json import Now, render_now

STATIC = files("zombiescope.web").joinpath("static")
ISLAND = '<script type="application/json" id="documents">{}</script>'
_ENTRY = "app.js"
_WHAT = r"(?:\s+(?P<default>[\w$]+)\s+|\s*\*\s*as\s+(?P<all>[\w$]+)\s+|\s*\{(?P<names>[^}]*)\}\s*)"
_IMPORT = re.compile(rf"""(?:^|(?<=;))import{_WHAT}from\s*["'](?P<from>[^"']+)["'](?:;|[ \t]*$)""", re.MULTILINE)
_DECLARED = re.compile(
    r"^export\s+(?P<what>(?:async\s+)?function\*?|class|const|let|var)\s+(?P<name>[\w$]+)", re.MULTILINE
)
_DEFAULT = re.compile(r"^export\s+default\s+", re.MULTILINE)
_LIST = re.compile(r"(?:^|(?<=[;}]))export\s*\{(?P<names>[^}]*)\};?", re.MULTILINE)
_LEFT = re.compile(r"^\s*(?:import|export)\b(?!\()", re.MULTILINE)
_STYLE = re.compile(r'<link\s+rel="stylesheet"\s+href="/static/(?P<name>[^"]+)"\s*/?>')
_ICON = re.compile(r'<link\s+rel="icon"[^>]*>')
_MODULE = re.compile(r'<script\s+type="module"\s+src="/static/app\.js"\s*>\s*</script>')
_REPORT = "<!--report-->"


def one_file(documents: Mapping[str, object] | None = None, report: str = "", root: Traversable = STATIC) -> str:
    """`documents` by the address under which the page asks for them. `report`: the same in words, for who runs no scripts."""
    page = root.joinpath("index.html").read_text("utf-8")
    styles = "\n".join(_text(root, match["name"]) for match in _STYLE.finditer(page))
    script = joined(root)
    embedded = json.dumps(documents, separators=(",", ":")).replace("<", "\\u003c")
    island = ISLAND if documents is None else ISLAND.replace("{}", embedded)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
    page = _ICON.sub("", _STYLE.sub("", page))
    page = page.replace("<head>", f"<head>\n{meta}", 1).replace("</head>", f"<style>{styles}</style>\n</head>", 1)
    page = _MODULE.sub("", page, count=1).replace("</body>", "\0</body>", 1)
    page = page.replace(_REPORT, f"<pre>{escape(quiet_lines(report))}</pre>" if report else "", 1)
    return page.replace("\0", f"{island}\n<script>{script}</script>\n", 1)


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def _text(root: Traversable, name: str) -> str:
    place = root
    for part in name.split("/"):
        place = place.joinpath(part)
    return place.read_text("utf-8")


def joined(root: Traversable = STATIC) -> str:
    """All modules that the entry needs, each once, what it imports before it. Raises ValueError for a form we do not know."""
    found: dict[str, str] = {}
    _take(root, _ENTRY, found, ())
    parts = [f"const {_variable(name)} = (() => {{\n{body}\n}})();" for name, body in found.items()]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();"


def _take(root: Traversable, name: str, found: dict[str, str], above: tuple[str, ...]) -> None:
    if name in above:
        raise ValueError(f"{name} imports itself: {' > '.join((*above, name))}")
    if name in found:
        return
    text = _text(root, name)
    for match in _IMPORT.finditer(text):
        _take(root, _resolved(name, match["from"]), found, (*above, name))
    found[name] = _wrapped(name, text)


def _resolved(name: str, wanted: str) -> str:
    if not wanted.startswith("."):
        raise ValueError(f"{name} imports {wanted}, which is no place beside it")
    parts = name.split("/")[:-1]
    for part in wanted.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _variable(name: str) -> str:
    return "m_" + re.sub(r"\W", "_", name)


def _wrapped(name: str, text: str) -> str:
    exports: dict[str, str] = {}

    def imported(match: re.Match[str]) -> str:
        module = _variable(_resolved(name, match["from"]))
        if match["all"]:
            return f"const {match['all']} = {module};"
        if match["default"]:
            return f"const {match['default']} = {module}.default;"
        return f"const {{{_renamed(match['names'], ': ')}}} = {module};"

    def declared(match: re.Match[str]) -> str:
        exports[match["name"]] = match["name"]
        return f"{match['what']} {match['name']}"

    def listed(match: re.Match[str]) -> str:
        for part in filter(None, map(str.strip, match["names"].split(","))):
            inner, _, outer = part.partition(" as ")
            exports[outer.strip() or inner.strip()] = inner.strip()
        return ""

    text = _IMPORT.sub(imported, text)
    text = _LIST.sub(listed, _DECLARED.sub(declared, text))
    if _DEFAULT.search(text):
        text = _DEFAULT.sub("const default_ = ", text, count=1)
        exports["default"] = "default_"
    left = _LEFT.search(text)
    if left:
        line = text[left.start() :].lstrip().partition("\n")[0]
        raise ValueError(f"{name}: a form of import or export that is not known here: {line[:80]}")
    return f"{text}\nreturn {{{', '.join(f'{outer}: {inner}' for outer, inner in exports.items())}}};"


def _renamed(names: str, by: str) -> str:
    return ", ".join(part.strip().replace(" as ", by) for part in names.split(",") if part.strip())


_API = "/api/v1/"
_NO_DAY = Gap("numbers[].day", "no history of this host is kept", "zombiescope agent")


def doctor_page(report: Report, more: Mapping[str, Json] | None = None, day: Day | Gap = _NO_DAY) -> str:
    """`more`: further documents, by the last part of their address."""
    found: dict[str, Json] = {"now": render_now(Now(report.case, report.diagnosis, report.plan, day)), **(more or {})}
    timeline = report.timeline
    if timeline is not None:
        found["events"] = render_timeline(timeline)
        found["follows"] = {
            "schema": "zombiescope.follows/1",
            "from": timeline.begin,
            "to": timeline.end,
            "gaps": [],
            "rows": render_follows(report.correlations),
        }
    found["page"] = _about(report, list(found))
    return one_file({_API + name: document for name, document in found.items()}, render_doctor_markdown(report))


def _about(report: Report, inside: list[str]) -> Json:
    snapshot = report.case.last.snapshot
    views = [name for name in ("now", "zombies", "services", "remedies") if name in inside]
    return {
        "schema": "zombiescope.page/1",
        "mode": "file",
        "version": __version__,
        "label": snapshot.source,
        "host": render_page_host(snapshot.identity, snapshot.hierarchy, snapshot.shape),
        "at": snapshot.taken_at,
        "now": snapshot.taken_at,
        "is_live": False,
        "poll_seconds": None,
        "views": [*views[:2], "time", "cores", *views[2:]] if "events" in inside else views,
        "severity": report.diagnosis.worst,
        "documents": {},
        "history": None,
        "gaps": [],
    }
