# SPDX-License-Identifier: Apache-2.0
"""The node itself, as process 1 of namespaces of its own (mounts, network, processes): `python -m tests.kubernetes.node FOLDER`.

Whatever a cluster writes outside FOLDER stays in these namespaces: /var and /run are overlays, the host's sysctls are hidden behind
files, the network is an own one. So nothing has to be put back, however it ends; it ends when standard input does.
"""

from __future__ import annotations

import json
import os
import select
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from tests.kubernetes.settings import (
    API_PORT,
    NODE,
    NODE_ADDRESS,
    SERVICE_ADDRESS,
    SERVICES,
    SOCKET,
    write_settings,
)

SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
KEYS = ("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")
OWN = ("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/var/log/pods", "/var/log/containers")
_MOST_SECONDS = 120.0


def _run(*words: str) -> None:
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def set_up_mounts(folder: Path) -> None:
    _run("mount", "-t", "proc", "proc", "/proc")
    _run("mount", "--make-rshared", "/")
    for name in ("var", "run"):
        upper, work = folder / f"over-{name}/upper", folder / f"over-{name}/work"
        upper.mkdir(parents=True)
        work.mkdir()
        _run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/{name},upperdir={upper},workdir={work}", f"/{name}")
    for place in OWN:  # of a plain file system, as on a node: page cache below an overlay would be another story
        own = folder / "own" / place[1:]
        own.mkdir(parents=True)
        os.makedirs(place, exist_ok=True)
        _run("mount", "--bind", str(own), place)
    hidden = folder / "sysctl"
    hidden.mkdir()
    for name in (*SYSCTLS, *KEYS):
        sysctl = Path("/proc/sys", name)
        copy = hidden / name.replace("/", ".")
        copy.write_text(sysctl.read_text())
        _run("mount", "--bind", str(copy), str(sysctl))


def set_up_network() -> None:
    """An address for the node, a default route (kubelet asks for one), and the service address of the API server."""
    for words in (
        "link set lo up",
        f"addr add {SERVICE_ADDRESS}/32 dev lo",
        "link add zs-node type veth peer name zs-peer",
        f"addr add {NODE_ADDRESS}/24 dev zs-node",
        "link set zs-node up",
        "link set zs-peer up",
        "route add default via 192.0.2.1 dev zs-node",
    ):
        _run("ip", *words.split())
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


class Parts:
    """The programs of the cluster, each with its log; one that ends is a failure, said with its last words."""

    more_environment: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __init__(self, folder: Path, hyper: Path, root: Path, most_seconds: float = _MOST_SECONDS) -> None:
        self.folder, self._hyper, self.root = folder, hyper, root
        self._most_seconds = most_seconds
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "bin").mkdir()
        (folder / "log").mkdir()
        path = f"{root}/usr/bin:{root}/usr/sbin:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        self._environment = {"PATH": path, "HOME": str(folder), "LC_ALL": "C.UTF-8", **self.more_environment}

    def start(self, name: str, *words: str) -> None:
        program = words[0] if words[0].startswith("/") else str(self._linked(words[0]))
        log = (self.folder / "log" / f"{name}.log").open("wb")
        self._running[name] = subprocess.Popen(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,
        )

    def _linked(self, name: str) -> Path:
        link = self.folder / "bin" / name
        if not link.exists():
            link.symlink_to(self._hyper)
        return link

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        ends = time.monotonic() + self._most_seconds
        while not ready():
            self.check()
            if time.monotonic() > ends:
                raise RuntimeError(f"{what} was not ready within {self._most_seconds:.0f} s")
            time.sleep(self._most_seconds / 1200)

    def check(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                words = (self.folder / "log" / f"{name}.log").read_text(errors="replace").splitlines()[-6:]
                raise RuntimeError(f"{name} ended with {process.returncode}: " + " | ".join(words))

    def reap(self) -> None:
        """Orphans become ours, the shims of containerd among them; a part that ended is left to `check`."""
        own = {process.pid for process in self._running.values()}
        while (found := _ended()) and found not in own:
            os.waitpid(found, 0)


class Api:
    """The API server as its administrator asks it: by one request, which is cheaper than a kubectl."""

    def __init__(self, pki: Path) -> None:
        self._pki = pki

    def says(self, path: str) -> str:
        """Nothing where it does not answer yet."""
        trust = ssl.create_default_context(cafile=str(self._pki / "ca.crt"))
        trust.verify_flags &= ~ssl.VERIFY_X509_STRICT  # of a CA that lives for a test
        trust.load_cert_chain(self._pki / "admin.crt", self._pki / "admin.key")
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{API_PORT}{path}", timeout=30, context=trust) as answer:
                return str(answer.read().decode())
        except OSError:  # refused, cut off, or an answer that is none
            return ""

    def node_is_ready(self) -> bool:
        told: dict[str, Any] = json.loads(self.says(f"/api/v1/nodes/{NODE}") or "{}")
        found = told.get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in found)


def listens(place: str) -> bool:
    with socket.socket(socket.AF_UNIX) as door:
        return door.connect_ex(place) == 0


def _ended() -> int | None:
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return found.si_pid if found else None


def start_all(parts: Parts, images: Sequence[Path], more: Mapping[str, Sequence[str]] = MappingProxyType({})) -> None:
    """`more`: what else a part is told, by its name."""
    folder, root, conf, pki = parts.folder, parts.root, parts.folder / "conf", parts.folder / "pki"

    def start(name: str, *words: str) -> None:
        parts.start(name, *words, *more.get(name, ()))

    etcd = "http://127.0.0.1:2379"
    start(
        "etcd",
        f"{root}/usr/bin/etcd",
        *("--data-dir", str(folder / "etcd"), "--unsafe-no-fsync", "--listen-client-urls", etcd),
        *("--advertise-client-urls", etcd, "--listen-peer-urls", "http://127.0.0.1:2380"),
    )
    start("containerd", f"{root}/usr/bin/containerd", "-c", str(conf / "containerd.toml"))
    start("kube-apiserver", "kube-apiserver", *_apiserver(folder, pki, etcd))
    parts.wait_until(lambda: listens(SOCKET), "containerd")
    for image in images:
        _run(f"{root}/usr/bin/ctr", "-a", SOCKET, "-n", "k8s.io", "images", "import", str(image))
    api = Api(pki)
    parts.wait_until(lambda: api.says("/readyz") == "ok", "the API server")
    own = ("--use-service-account-credentials=true", f"--service-account-private-key-file={pki}/sa.key")
    start(*_follower(folder, "kube-controller-manager", 10257), *own, f"--root-ca-file={pki}/ca.crt")
    start(*_follower(folder, "kube-scheduler", 10259))
    runtime = f"--container-runtime-endpoint=unix://{SOCKET}", "--container-runtime=remote", f"--containerd={SOCKET}"
    start(
        "kubelet",
        "kubelet",
        f"--config={conf}/kubelet.json",
        f"--kubeconfig={conf}/kubelet.kubeconfig",
        *(f"--hostname-override={NODE}", f"--node-ip={NODE_ADDRESS}", f"--cert-dir={folder}/kubelet-certs", *runtime),
    )
    parts.wait_until(api.node_is_ready, "the node")


def _apiserver(folder: Path, pki: Path, etcd: str) -> list[str]:
    certificate = f"--kubelet-client-certificate={pki}/admin.crt", f"--kubelet-client-key={pki}/admin.key"
    return [
        f"--etcd-servers={etcd}",
        *("--bind-address=0.0.0.0", f"--secure-port={API_PORT}", "--insecure-port=0"),
        *(f"--advertise-address={NODE_ADDRESS}", "--endpoint-reconciler-type=none", f"--cert-dir={folder}/apiserver"),
        *(f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key"),
        f"--client-ca-file={pki}/ca.crt",
        *("--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={pki}/sa.pub"),
        *(f"--service-account-signing-key-file={pki}/sa.key", f"--service-cluster-ip-range={SERVICES}"),
        *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true"),
        *certificate,
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def _follower(folder: Path, name: str, port: int) -> list[str]:
    """A part that asks the API server: its name, the program, what it is told."""
    file = f"{folder}/conf/{name}.kubeconfig"
    asked = [f"--{word}kubeconfig={file}" for word in ("", "authentication-", "authorization-")]
    own = [f"--cert-dir={folder}/{name}", f"--secure-port={port}", "--port=0", "--bind-address=127.0.0.1"]
    return [name, name, *asked, *own, "--leader-elect=false"]


def main() -> None:
    order = json.loads(sys.argv[1])
    folder, root = Path(order["folder"]), Path(order["root"])
    began = time.monotonic()
    try:
        set_up_mounts(folder)
        set_up_network()
        write_settings(folder, folder, root, systemd=False)
        parts = Parts(folder, Path(order["hyper"]), root)
        start_all(parts, [Path(name) for name in order["images"]])
        _tell(f"ready {time.monotonic() - began:.1f}")
        while not select.select([sys.stdin], [], [], 1.0)[0]:
            parts.reap()
            parts.check()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        _tell(f"failed {error}")
    os._exit(0)  # and everything else of these namespaces with it


def _tell(line: str) -> None:
    """To whoever asked; where nobody reads any more there is nobody to tell."""
    with suppress(BrokenPipeError):
        os.write(1, line.replace("\n", " ").encode() + b"\n")


if __name__ == "__main__":
    main()
