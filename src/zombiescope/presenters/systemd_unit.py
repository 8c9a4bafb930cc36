# SPDX-License-Identifier: Apache-2.0
"""The agent as a systemd unit. Root without most of its capabilities; it may not become the crash-looping unit it looks for."""

from __future__ import annotations

_UNIT = """\
[Unit]
Description=Zombiescope agent: births, deaths and zombies of memory cgroups
After=local-fs.target
# Five starts in ten minutes, half a minute apart: the limit trips, so this unit cannot restart for ever.
StartLimitIntervalSec=600
StartLimitBurst=5

[Service]
Type=notify
ExecStart={program} agent
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=30
WatchdogSec=120
StateDirectory=zombiescope
StateDirectoryMode=0750
# The tool costs less than what it measures. The walk runs in a child for a moment: its memory counts here too.
MemoryHigh=112M
MemoryMax=160M
CPUQuota=20%
CPUWeight=20
IOWeight=20
Nice=10
OOMScoreAdjust=500
TasksMax=16
LimitNOFILE=1024
# CAP_BPF and CAP_PERFMON: the ledger and the walk. CAP_DAC_READ_SEARCH: files of other owners. Nothing else.
CapabilityBoundingSet=CAP_BPF CAP_PERFMON CAP_DAC_READ_SEARCH
AmbientCapabilities=
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
KeyringMode=private
RemoveIPC=yes
UMask=0027
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
# Loopback only. To let a Prometheus elsewhere scrape: IPAddressAllow= its address, and listen in /etc/zombiescope.toml.
IPAddressDeny=any
IPAddressAllow=localhost
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallFilter=bpf

[Install]
WantedBy=multi-user.target
"""


def render_unit(program: str) -> str:
    return _UNIT.format(program=program)
