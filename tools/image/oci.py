# SPDX-License-Identifier: Apache-2.0
"""An OCI image layout as one tar file. Same content, same bytes: names sorted, one time for all, nobody's user or host in it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
EMPTY = "application/vnd.oci.empty.v1+json"
BILL = "application/vnd.cyclonedx+json"
Descriptor = dict[str, Any]


class Entry(NamedTuple):
    """A file of a layer, or a folder where `content` is None."""

    name: str
    content: bytes | None
    mode: int
    owner: int = 0


class Layout:
    """The blobs of a layout, each under its hash, and what index.json will list."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
        self._listed: list[Descriptor] = []
        self._docker: list[dict[str, Any]] = []

    def blob(self, media_type: str, content: bytes, **more: Any) -> Descriptor:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self._blobs[digest] = content
        return {"mediaType": media_type, "digest": digest, "size": len(content), **more}

    def document(self, media_type: str, content: Mapping[str, Any], **more: Any) -> Descriptor:
        return self.blob(media_type, json.dumps(content, sort_keys=True, separators=(",", ":")).encode(), **more)

    def image(
        self, entries: Iterable[Entry], settings: Mapping[str, Any], architecture: str, labels: Mapping[str, str]
    ) -> Descriptor:
        """One layer, one platform. `settings`: the `config` of an image's configuration."""
        plain = packed(entries)
        layer = self.blob(LAYER, gzip.compress(plain, 9, mtime=0))
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {**settings, "Labels": dict(labels)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
            "history": [{"created_by": "python -m tools.image"}],
        }
        described = self.document(CONFIG, config)
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": [layer]}
        platform = {"os": "linux", "architecture": architecture}
        return self.document(MANIFEST, {**manifest, "annotations": dict(labels)}, platform=platform)

    def attached(self, subject: Descriptor, media_type: str, content: bytes, title: str) -> Descriptor:
        """Something about an image, which a registry lists as its referrer."""
        about = {key: subject[key] for key in ("mediaType", "digest", "size")}
        layer = self.blob(media_type, content, annotations={"org.opencontainers.image.title": title})
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": media_type,
            "config": self.blob(EMPTY, b"{}"),
            "layers": [layer],
            "subject": about,
        }
        return self.document(MANIFEST, manifest, artifactType=media_type)

    def index(self, manifests: Sequence[Descriptor]) -> Descriptor:
        return self.document(INDEX, {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(manifests)})

    def list_as(self, described: Descriptor, name: str | None = None) -> None:
        """In index.json; with a name that containerd, podman and skopeo take."""
        names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name} if name else {}
        self._listed.append({**described, "annotations": names} if names else described)

    def for_docker(self, manifest: Descriptor, name: str) -> None:
        """`docker load` of before 25 reads manifest.json, and one platform."""
        read = json.loads(self._blobs[manifest["digest"]])
        layers = [_place(layer["digest"]) for layer in read["layers"]]
        self._docker.append({"Config": _place(read["config"]["digest"]), "RepoTags": [name], "Layers": layers})

    def write(self, target: Path) -> None:
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": self._listed}
        files = {_place(digest): content for digest, content in self._blobs.items()}
        files["index.json"] = json.dumps(index, sort_keys=True).encode()
        files["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
        if self._docker:
            files["manifest.json"] = json.dumps(self._docker, sort_keys=True).encode()
        entries = [Entry(name, content, 0o644) for name, content in files.items()]
        fresh = target.with_name(f".{target.name}.part")
        fresh.write_bytes(packed([Entry("blobs", None, 0o755), Entry("blobs/sha256", None, 0o755), *entries]))
        fresh.replace(target)


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def packed(entries: Iterable[Entry]) -> bytes:
    """A tar archive: sorted, of one time, of nobody's machine."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in sorted(entries):
            about = tarfile.TarInfo(entry.name)
            about.mode, about.uid, about.gid = entry.mode, entry.owner, entry.owner
            if entry.content is None:
                about.type = tarfile.DIRTYPE
            else:
                about.size = len(entry.content)
            archive.addfile(about, io.BytesIO(entry.content or b""))
    return written.getvalue()
