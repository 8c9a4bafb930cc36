# SPDX-License-Identifier: Apache-2.0
"""How Debian's source of Kubernetes becomes one static program of four parts; the text of this file is part of its key."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tools.onefile.fetch import unpack_source
from tools.onefile.pins import Source
from tools.onefile.steps import Cache, Made, run

HERE = Path(__file__).parent
SOURCE = Source(
    "kubernetes",
    "1.20.2",
    "k/kubernetes",
    "kubernetes_1.20.5+really1.20.2.orig.tar.gz",
    "b83c0780efb182d928dc63d46488a847f161f04e40a94b96bf5247dd671ecdfc",
    "Apache-2.0",
    "LICENSE",
)
GO = ("golang-1.19-go", "golang-1.19-src")
_PACKAGE = "k8s.io/kubernetes"
_OPENAPI = "pkg/generated/openapi/zz_generated.openapi.go"
_WITHOUT = ("/code-generator/", "/sample-apiserver/", "_test.go", "kube-openapi/", "gengo/")


def make_hyper(kept: Cache, go: Callable[[], Made]) -> Made:
    """Everything that decides the binary: the pinned source, Debian's Go, this recipe and the 40 lines of main.go."""
    text = [(HERE / file).read_text(encoding="utf-8") for file in ("hyper.py", "hyper/main.go")]

    def make(folder: Path) -> None:
        scratch = folder / "scratch"
        tree = scratch / "gopath/src" / _PACKAGE
        tree.mkdir(parents=True)
        unpack_source(SOURCE, [], kept.folder / "downloads", tree)
        (tree / "cmd/hyper").mkdir()
        shutil.copy(HERE / "hyper/main.go", tree / "cmd/hyper")
        _compile(tree, scratch, go().folder / "root/usr/lib/go-1.19", folder / "hyper")
        shutil.rmtree(scratch)

    return kept.step("hyper", [], [SOURCE.sha256, *GO, *text], make)


def _compile(tree: Path, scratch: Path, go_root: Path, target: Path) -> None:
    environment = {
        "GOROOT": str(go_root),
        "GOCACHE": str(scratch / "gocache"),
        "GOPATH": str(scratch / "gopath"),
        "GO111MODULE": "off",  # -mod=vendor refuses Debian's tree: "updates to go.mod needed"
        "CGO_ENABLED": "0",
    }
    build: list[str | Path] = ["nice", "-n", "19", str(go_root / "bin/go"), "build", "-trimpath"]
    if not (tree / _OPENAPI).exists():  # Debian's source lacks the generated file
        tool = scratch / "openapi-gen"
        run([*build, "-o", tool, "./vendor/k8s.io/kube-openapi/cmd/openapi-gen"], tree, environment)
        generate: list[str | Path] = [tool, "-i", ",".join(_annotated(tree)), "-r", scratch / "violations"]
        generate += ["-p", f"{_PACKAGE}/pkg/generated/openapi", "-O", "zz_generated.openapi"]
        run([*generate, "-h", "vendor/k8s.io/code-generator/hack/boilerplate.go.txt"], tree, environment)
    version = f"{_PACKAGE}/vendor/k8s.io/component-base/version"
    said = {"gitVersion": f"v{SOURCE.version}", "gitMajor": "1", "gitMinor": "20", "gitTreeState": "archive"}
    flags = " ".join(["-s -w", *(f"-X {version}.{name}={value}" for name, value in said.items())])
    words = [*build, "-tags", "providerless dockerless", "-ldflags", flags, "-o", target]
    run([*words, f"{_PACKAGE}/cmd/hyper"], tree, environment)


def _annotated(tree: Path) -> list[str]:
    """The folders whose types go into the API's description, as the project's own makefile finds them."""
    pattern = r"^// *+k8s:openapi-gen="
    places = ["pkg", "cmd", "plugin", *sorted(str(p.relative_to(tree)) for p in (tree / "vendor/k8s.io").iterdir())]
    found = run(["grep", "-rlE", "--include=*.go", pattern.replace("+k8s", "\\+k8s"), *places], tree).splitlines()
    wanted = {str(Path(file).parent) for file in found if not any(word in file for word in _WITHOUT)}
    return [f"{_PACKAGE}/{folder}" for folder in sorted(wanted)]
