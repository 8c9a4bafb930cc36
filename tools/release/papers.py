# SPDX-License-Identifier: Apache-2.0
"""What goes along with a release: notes cut from the changelog, one bill of materials for all files, and their checksums."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from tools.onefile.bill import own_component, vendored_components
from tools.release.cluster import IMAGE
from tools.release.origin import TOP, ReleaseError, version

SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.sig"
BILL = "zombiescope.cdx.json"
NOTES = "RELEASE-NOTES.md"
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


def release_notes(changelog: str, number: str) -> str:
    """The section of this version; before it has one, what is not released yet. Links become the paths they lead to."""
    sections: dict[str, str] = dict(re.findall(r"^## (\S+).*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL))
    body = (sections.get(number) or sections.get("Unreleased") or "").strip()
    if not body:
        raise ReleaseError(f"CHANGELOG.md has no section `## {number}` and nothing under `## Unreleased`")
    told = _LINK.sub(lambda link: link[2] if link[1] in link[2] else f"{link[1]}: {link[2]}", body)
    first = f"Install: docs/guides/install.md. Check what you have: `sha256sum --check {SUMS}`."
    return f"# Zombiescope {number}\n\n{first}\n\n{told}\n"


def write_notes(out: Path) -> Path:
    target = out / NOTES
    target.write_text(release_notes((TOP / "CHANGELOG.md").read_text(encoding="utf-8"), version()), encoding="utf-8")
    return target


def write_bill(out: Path) -> Path:
    """CycloneDX 1.6 over every file of the release, each with its hash and with what is inside it. Tells no time."""
    files = [_listed(path) for path in _artefacts(out)]
    together = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    own = own_component(TOP, version())
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, together)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "zombiescope",
                "name": own.name,
                "version": own.version,
                "licenses": [{"expression": own.licence}],
                "purl": own.origin,
            }
        },
        "components": files,
    }
    target = out / BILL
    target.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    return target


def write_sums(out: Path) -> Path:
    """Of every file below `out`, as `sha256sum --check` reads them."""
    target = out / SUMS
    (out / SIGNATURE).unlink(missing_ok=True)
    files = sorted(path for path in out.rglob("*") if path.is_file() and path != target)
    target.write_text("".join(f"{_sha256(path)}  {path.relative_to(out)}\n" for path in files), encoding="utf-8")
    return target


def _artefacts(out: Path) -> list[Path]:
    papers = {BILL, NOTES, SUMS, SIGNATURE}
    files = sorted(path for path in out.rglob("*") if path.is_file())
    return [path for path in files if path.name not in papers and not path.name.endswith(".cdx.json")]


def _listed(path: Path) -> dict[str, Any]:
    listed: dict[str, Any] = {
        "type": "file",
        "bom-ref": path.name,
        "name": path.name,
        "version": version(),
        "hashes": [{"alg": "SHA-256", "content": _sha256(path)}],
    }
    inside = [{**part, "bom-ref": f"{path.name}/{part['name']}"} for part in _inside(path)]
    return {**listed, "components": inside} if inside else listed


def _inside(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix in (".whl", ".pyz") or path.name == f"zombiescope-{version()}.tar.gz":
        yield from (_library(part.name, part.version, part.licence, part.origin) for part in vendored_components(TOP))
    if path.suffix == ".whl":
        yield from _required(path)
    elif path.suffix == ".pyz":
        yield from _installed(path)
    elif one_file := _one_file_of(path):
        yield from json.loads(one_file.read_text(encoding="utf-8"))["components"]


def _one_file_of(path: Path) -> Path | None:
    """The bill of the one file that a package or an image holds, or that it is."""
    for architecture, *spelled in (("x86_64", "amd64", IMAGE), ("aarch64", "arm64")):
        if any(word in path.name for word in (architecture, *spelled)):
            name = f"zombiescope-{architecture}.cdx.json"
            return next((found for found in (path.with_name(name), TOP / "dist" / name) if found.exists()), None)
    return None


def _installed(pyz: Path) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(pyz) as archive:
        names = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        for name in sorted(names):
            told = HeaderParser().parsestr(archive.read(name).decode("utf-8", "replace"))
            if told["Name"] != "zombiescope":
                origin = f"pkg:pypi/{told['Name'].lower()}@{told['Version']}"
                yield _library(told["Name"], told["Version"], told["License-Expression"] or "", origin)


def _required(wheel: Path) -> Iterator[dict[str, Any]]:
    """A wheel holds no library: it names those that pip takes, with the versions that will do."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        told = HeaderParser().parsestr(archive.read(name).decode("utf-8", "replace"))
    seen: set[str] = set()
    for line in told.get_all("Requires-Dist") or []:
        needed = re.match(r"([\w.-]+)\s*([^;]*)", line)
        if needed and needed[1] not in seen:
            seen.add(needed[1])
            listed = _library(needed[1], needed[2].strip() or "any", "", f"pkg:pypi/{needed[1].lower()}")
            yield {**listed, "scope": "optional" if "extra ==" in line else "required"}


def _library(name: str, number: str, licence: str, origin: str) -> dict[str, Any]:
    listed: dict[str, Any] = {"type": "library", "name": name, "version": number, "purl": origin}
    return {**listed, "licenses": [{"expression": licence}]} if licence else listed


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
