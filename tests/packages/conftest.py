# SPDX-License-Identifier: Apache-2.0
"""Roots made of Debian's own packages, unpacked and never installed. A host without apt skips with the reason;
ZOMBIESCOPE_REQUIRE=packages makes that a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zombiescope/debs"
DAEMONS = [
    "accountsservice",
    "acpid",
    "anacron",
    "apache2",
    "apparmor",
    "apt",
    "at",
    "auditd",
    "avahi-daemon",
    "bind9",
    "chrony",
    "cloud-init",
    "collectd-core",
    "colord",
    "coturn",
    "cron",
    "cups-daemon",
    "dbus",
    "dnsmasq",
    "e2fsprogs",
    "fail2ban",
    "freeradius",
    "haproxy",
    "irqbalance",
    "isc-dhcp-server",
    "iwd",
    "kea-dhcp4-server",
    "keepalived",
    "knot",
    "lighttpd",
    "lldpd",
    "logrotate",
    "man-db",
    "mdadm",
    "memcached",
    "modemmanager",
    "monit",
    "mosquitto",
    "multipath-tools",
    "munin-node",
    "nfs-kernel-server",
    "nftables",
    "nginx",
    "nscd",
    "nsd",
    "ntpsec",
    "open-iscsi",
    "open-vm-tools",
    "openssh-server",
    "openvpn",
    "polkitd",
    "postfix",
    "postgresql-common",
    "qemu-guest-agent",
    "redis-server",
    "rpcbind",
    "rsyslog",
    "smartmontools",
    "squid",
    "stunnel4",
    "supervisor",
    "sysstat",
    "systemd",
    "systemd-resolved",
    "systemd-timesyncd",
    "tftpd-hpa",
    "thermald",
    "tor",
    "tuned",
    "udev",
    "udisks2",
    "ufw",
    "unattended-upgrades",
    "unbound",
    "upower",
    "varnish",
    "vsftpd",
    "wireguard-tools",
    "zabbix-agent",
]


SERVER = ["containerd", "cron", "dbus", "openssh-server", "systemd", "systemd-sysv", "systemd-timesyncd", "udev"]


def _refuse(reason: str) -> None:
    (pytest.fail if "packages" in os.environ.get("ZOMBIESCOPE_REQUIRE", "").split(",") else pytest.skip)(reason)


def _download(names: list[str]) -> list[Path]:
    CACHE.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if not list(CACHE.glob(f"{name}_*.deb"))]
    if missing:
        command = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *missing]
        run = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, check=False)
        if run.returncode:
            _refuse(f"the packages cannot be had: {run.stderr.strip()[-300:]}")
    return sorted(next(iter(CACHE.glob(f"{name}_*.deb"))) for name in names)


def _unpacked(root: Path, names: list[str]) -> Path:
    """As packages unpack, then preset as an image builder does."""
    for program in ("apt-get", "dpkg-deb", "systemctl", "debugfs", "mke2fs"):
        if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            _refuse(f"{program} is not installed")
    for package in _download(names):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    subprocess.run(["systemctl", f"--root={root}", "preset-all"], check=True, capture_output=True)
    return root


@pytest.fixture(scope="session")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a machine with all these daemons."""
    return _unpacked(tmp_path_factory.mktemp("debian"), DAEMONS)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stock server: ssh, cron and containerd on a base system."""
    return _unpacked(tmp_path_factory.mktemp("server"), SERVER)
