# SPDX-License-Identifier: Apache-2.0
"""What the parts of the cluster are told: certificates, kubeconfigs, and the settings of containerd, its network and kubelet."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

NODE = "n1"
NODE_ADDRESS = "192.0.2.2"
SERVICE_ADDRESS = "10.99.0.1"
SERVICES = "10.99.0.0/24"
PODS = "10.98.0.0/24"
API_PORT = 443
SOCKET = "/run/containerd/containerd.sock"
PAUSE = "docker.io/local/pause:1"

_CONTAINERD = """version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    snapshotter = "{snapshotter}"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        SystemdCgroup = {systemd}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
"""
_KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "address": NODE_ADDRESS,
    "readOnlyPort": 0,
    "authorization": {"mode": "Webhook"},
    "failSwapOn": False,
    "makeIPTablesUtilChains": False,
    "resolvConf": "",
    "enforceNodeAllocatable": ["pods"],
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    "imageGCHighThresholdPercent": 100,
    "imageGCLowThresholdPercent": 99,
    "serializeImagePulls": False,
    "nodeStatusUpdateFrequency": "2s",
}
_NETWORK = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "zs-pods",
            "isDefaultGateway": True,
            "ipMasq": False,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]]},
        },
        {"type": "loopback"},
    ],
}
_PEOPLE = {
    "admin": "/O=system:masters/CN=admin",
    "kubelet": f"/O=system:nodes/CN=system:node:{NODE}",
    "kube-controller-manager": "/CN=system:kube-controller-manager",
    "kube-scheduler": "/CN=system:kube-scheduler",
    "apiserver": "/CN=kube-apiserver",
}
_NAMES = {
    "apiserver": f"IP:127.0.0.1,IP:{SERVICE_ADDRESS},IP:{NODE_ADDRESS},DNS:kubernetes.default.svc,DNS:localhost",
    "kubelet": f"IP:{NODE_ADDRESS},DNS:{NODE}",
}


def write_settings(target: Path, folder: Path, root: Path, *, systemd: bool, status_seconds: int = 2) -> None:
    """All of it below `target`, which the node sees as `folder`; `root`: Debian's packages, unpacked, as it sees them."""
    for name in ("pki", "conf", "cni", "opt"):
        (target / name).mkdir(parents=True, exist_ok=True)
    _write_certificates(target / "pki")
    pki, conf = folder / "pki", target / "conf"
    for name in ("admin", "kubelet", "kube-controller-manager", "kube-scheduler"):
        (conf / f"{name}.kubeconfig").write_text(json.dumps(kubeconfig(pki, name)))
    runtime = runtime_settings(str(folder), f"{root}/usr/sbin/runc", f"{root}/usr/lib/cni", systemd=systemd)
    (conf / "containerd.toml").write_text(runtime)
    (target / "cni/10-pods.conflist").write_text(json.dumps(_NETWORK))
    kubelet = {
        **kubelet_settings(systemd=systemd),
        "nodeStatusUpdateFrequency": f"{status_seconds}s",
        "staticPodPath": str(folder / "manifests"),
        "volumePluginDir": str(folder / "volume-plugins"),
        "tlsCertFile": str(pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
    }
    (conf / "kubelet.json").write_text(json.dumps(kubelet))


def runtime_settings(folder: str, runc: str, plugins: str, *, systemd: bool, snapshotter: str = "overlayfs") -> str:
    """Of containerd. `plugins`: the folder of the CNI programs."""
    told = {"folder": folder, "runc": runc, "plugins": plugins, "snapshotter": snapshotter}
    return _CONTAINERD.format(systemd="true" if systemd else "false", socket=SOCKET, pause=PAUSE, **told)


def kubelet_settings(*, systemd: bool) -> dict[str, object]:
    return {**_KUBELET, "cgroupDriver": "systemd" if systemd else "cgroupfs"}


def kubeconfig(pki: Path, name: str, port: int = API_PORT) -> dict[str, object]:
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(pki / "ca.crt")}
    return _kubeconfig(
        cluster, {"client-certificate": str(pki / f"{name}.crt"), "client-key": str(pki / f"{name}.key")}
    )


def plain_kubeconfig(port: int) -> dict[str, object]:
    """By a `kubectl proxy`, which has the certificates."""
    return _kubeconfig({"server": f"http://127.0.0.1:{port}"}, {})


def _kubeconfig(cluster: dict[str, str], user: dict[str, str]) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def _write_certificates(pki: Path) -> None:
    for name in ("ca", "sa", *_PEOPLE):
        _openssl(pki, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key")
    _openssl(pki, "pkey", "-in", "sa.key", "-pubout", "-out", "sa.pub")
    lasting = ("-days", "3", "-sha256")
    _openssl(pki, "req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=zombiescope-test", *lasting, "-out", "ca.crt")
    for name, subject in _PEOPLE.items():
        names = _NAMES.get(name, f"DNS:{name}")
        (pki / f"{name}.ext").write_text(f"subjectAltName={names}\nextendedKeyUsage=clientAuth,serverAuth\n")
        _openssl(pki, "req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
        signed = ("-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial")
        _openssl(pki, "x509", *signed, *lasting, "-extfile", f"{name}.ext", "-out", f"{name}.crt")


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
