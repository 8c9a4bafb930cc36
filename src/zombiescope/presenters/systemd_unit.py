# SPDX-License-Identifier: Apache-2.0
"""The agent as a systemd unit. Root without most of its capabilities; it may not become the crash-looping unit it looks for."""

from __future__ import annotations

_UNIT = """\
[Unit]
Description=Zombiescope agent: births, deaths and zombies of memory cgroups
After=local-fs.target
# Ten starts in an hour: the limit trips whether it ends at once, never gets ready or stops answering its watchdog, so this unit
# cannot restart for ever.
StartLimitIntervalSec=3600
StartLimitBurst=10

[Service]
Type=notify
ExecStart={program} agent
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=30
# It is needed most on a host where everything waits for a core.
TimeoutStartSec=240
TimeoutStopSec=60
WatchdogSec=120
StateDirectory=zombiescope
StateDirectoryMode=0750
# For listen = "unix:/run/zombiescope-agent/http.sock".
RuntimeDirectory=zombiescope-agent
RuntimeDirectoryMode=0750
# The tool costs less than what it measures. The walk runs in a child for a moment: its memory counts here too. Should a child
# be killed for its memory, the agent goes on without its answer.
MemoryHigh=112M
MemoryMax=160M
OOMPolicy=continue
CPUQuota=20%
CPUWeight=20
IOWeight=20
Nice=10
OOMScoreAdjust=500
TasksMax=16
LimitNOFILE=1024
# CAP_BPF and CAP_PERFMON: the ledger and the walk. CAP_DAC_READ_SEARCH: files of other owners. CAP_SYSLOG: the kernel's log,
# where resets of network cards are told. Nothing else.
CapabilityBoundingSet=CAP_BPF CAP_PERFMON CAP_DAC_READ_SEARCH CAP_SYSLOG
AmbientCapabilities=
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
# Of all devices this one is left, for reading; ProtectKernelLogs= would take it away.
BindReadOnlyPaths=-/dev/kmsg
DeviceAllow=/dev/kmsg r
ProtectKernelModules=yes
ProtectKernelTunables=yes
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


_REAPER = """\
[Unit]
Description=Zombiescope reaper: frees zombies that only page cache keeps, within a budget
After=local-fs.target

[Service]
# Off until it is enabled. It stops itself when it harms (exit 5) and is then left stopped: no Restart=.
Type=exec
ExecStart={program} reap --watch --yes
Restart=no
StateDirectory=zombiescope
StateDirectoryMode=0750
MemoryMax=160M
CPUQuota=5%
CPUWeight=5
IOWeight=5
Nice=15
OOMScoreAdjust=500
TasksMax=4
# CAP_BPF and CAP_PERFMON: the walk. CAP_DAC_READ_SEARCH: open the files that pin. CAP_SYS_ADMIN is not among them.
CapabilityBoundingSet=CAP_BPF CAP_PERFMON CAP_DAC_READ_SEARCH
NoNewPrivileges=yes
ProtectSystem=strict
PrivateTmp=no
PrivateDevices=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectClock=yes
ProtectHostname=yes
PrivateNetwork=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service bpf

[Install]
WantedBy=multi-user.target
"""


def render_reaper_unit(program: str) -> str:
    return _REAPER.format(program=program)
