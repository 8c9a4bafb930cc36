# SPDX-License-Identifier: Apache-2.0
"""The agent as a systemd unit. Root without most of its capabilities; it may not become the crash-looping unit it looks for."""

import json
from collections.abc import Mapping

from zombiescope.facts.names import shown_text

SYSTEMD = """\
# /etc/systemd/system/zombiescope-audit.service
[Unit]
Description=Zombiescope: what changed since the accepted audit, and which waivers have ended
# Before the first run somebody reads and accepts one: {program} audit --json > {accepted}
ConditionPathExists={accepted}

[Service]
Type=oneshot
# Both are run; the unit fails if one of them does, and `systemctl --failed` shows it until somebody looks.
ExecStart=/bin/sh -c '{program} audit --against {accepted}; first=$$?; {program} check --config {config} || exit $$?; exit $$first'
Nice=10
MemoryMax=512M
TimeoutStartSec=15min
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes

# /etc/systemd/system/zombiescope-audit.timer
[Unit]
Description=Zombiescope: the audit of every quarter

[Timer]
OnCalendar=quarterly
RandomizedDelaySec=1d
Persistent=yes

[Install]
WantedBy=timers.target
"""

GITHUB = """\
# .github/workflows/zombiescope-audit.yml: every quarter, the image that is in use against the accepted audit.
name: quarterly audit
on:
  schedule:
    - cron: "23 4 1 1,4,7,10 *"
  workflow_dispatch: {{}}
permissions:
  contents: read
jobs:
  audit:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - name: what changed since the accepted audit
        run: {program} audit --image {image} --against {accepted}
      - name: the gate, and which waivers have ended
        if: always()
        run: {program} check --image {image} --config {config} --format github
"""

GITLAB = """\
# Part of .gitlab-ci.yml: every quarter, by a pipeline schedule (CI/CD, Schedules: 23 4 1 1,4,7,10 *).
quarterly-audit:
  rules:
    - if: $CI_PIPELINE_SOURCE == "schedule"
  script:
    - {program} audit --image {image} --against {accepted}
    - {program} check --image {image} --config {config}
"""

KINDS = {"systemd": SYSTEMD, "github": GITHUB, "gitlab": GITLAB}


def render_schedule(kind: str, program: str, accepted: str, config: str, image: str) -> str:
    return KINDS[kind].format(program=program, accepted=accepted, config=config, image=image)


_CLOSED = """\
ProtectKernelModules=yes
# What ProtectKernelTunables=yes would close, but for /proc/kallsyms: it hides that too, and no function of the kernel had a name.
ReadOnlyPaths=/proc/sys /sys -/proc/acpi -/proc/bus -/proc/fs -/proc/irq -/proc/latency_stats -/proc/mtrr -/proc/sysrq-trigger
InaccessiblePaths=-/proc/kcore
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
KeyringMode=private
"""
"""To agent and recorder alike; the reaper must reach the files of others."""

_AGENT = (
    """\
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
"""
    + _CLOSED
    + """\
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
SystemCallFilter=bpf perf_event_open

[Install]
WantedBy=multi-user.target
"""
)


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


_RECORDER = (
    """\
[Unit]
Description=Zombiescope recorder: rolling profiles of every core, kept in a ring
After=local-fs.target
StartLimitIntervalSec=3600
StartLimitBurst=10

[Service]
# Off until it is enabled. Values: [profile] of /etc/zombiescope.toml. What a kill leaves behind is picked up by the next start.
Type=exec
ExecStart={program} profile record --service
Restart=on-failure
RestartSec=10
TimeoutStopSec=60
StateDirectory=zombiescope
StateDirectoryMode=0750
# It bounds itself (most_cpu_percent); this is for the worst. On a host where everything waits for a core its samples wait in the
# kernel's rings.
MemoryHigh=384M
MemoryMax=512M
CPUQuota=20%
CPUWeight=20
IOWeight=20
Nice=5
OOMScoreAdjust=500
TasksMax=16
LimitNOFILE=65536
# CAP_PERFMON: samples. CAP_SYSLOG: names of kernel functions, and the kernel's log. CAP_DAC_READ_SEARCH: symbols of programs.
# CAP_SYS_PTRACE: what other users' processes have mapped, to name their functions. It is a strong one: without it only the
# functions of root's own programs have names.
CapabilityBoundingSet=CAP_PERFMON CAP_SYSLOG CAP_DAC_READ_SEARCH CAP_SYS_PTRACE
AmbientCapabilities=
NoNewPrivileges=yes
# captures = "DIR" elsewhere needs ReadWritePaths=DIR.
ProtectSystem=strict
ProtectHome=read-only
PrivateDevices=yes
BindReadOnlyPaths=-/dev/kmsg
DeviceAllow=/dev/kmsg r
# Nothing leaves this host.
PrivateNetwork=yes
"""
    + _CLOSED
    + """\
UMask=0077
RestrictAddressFamilies=AF_UNIX AF_INET AF_NETLINK
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallFilter=~process_vm_readv process_vm_writev pidfd_getfd
SystemCallFilter=perf_event_open

[Install]
WantedBy=multi-user.target
"""
)


_UNITS = {"agent": _AGENT, "reaper": _REAPER, "recorder": _RECORDER}


def render_unit(program: str, unit: str = "agent") -> str:
    return _UNITS[unit].format(program=program)


_SLICE = """\
# {slice_file}
[Unit]
Description={unit} and what it leaves behind, apart from everybody else
Before=slices.target

[Slice]
MemoryAccounting=yes

# {drop_in}
[Service]
# Zombies are charged below the slice of the unit that made them. In a slice of its own, a limit or a reclaim on another
# slice does not walk over them. It frees nothing by itself.
Slice={slice_name}
"""

_HOOK = """\
# {drop_in}
[Service]
# Runs inside the unit's own cgroup when the last process of a run has ended, just before systemd removes it: what page cache
# the run was charged for is let go, so that no zombie stays. v2: memory.reclaim (5.19); v1: memory.force_empty. A kernel that
# has neither, or cannot free all of it, does not fail the unit. Shared memory that is left behind is not freed by this.
# Without swap meanwhile: reclaim would swap out the hook itself, and its swap entries would keep the cgroup as a zombie.
MemoryAccounting=yes
ExecStopPost=-/bin/sh -c '{command}'
"""

_FIND = (
    "while IFS=: read -r n c p; do "
    'case ",$$c," in *,memory,*) g=/sys/fs/cgroup/memory$$p;; ,,) u=/sys/fs/cgroup$$p;; esac; '
    'done </proc/self/cgroup; g="$${g:-$$u}"; '
)
_RECLAIM = (
    'k="$$g/memory.swap.max"; [ -w "$$k" ] || k="$$g/memory.swappiness"; '
    's=; [ -w "$$k" ] && read -r s <"$$k" && echo 0 >"$$k"; '
    'if [ -w "$$g/memory.reclaim" ]; then echo 1G >"$$g/memory.reclaim"; '
    'elif [ -w "$$g/memory.force_empty" ]; then echo 0 >"$$g/memory.force_empty"; fi; '
    '[ -z "$$s" ] || echo "$$s" >"$$k"'
)


def slice_name_of(unit: str) -> str:
    """A top-level slice: a dash in a slice's name is a level of the tree."""
    stem = unit.rpartition(".")[0] or unit
    return "".join(character if character.isalnum() else "_" for character in stem) + "_churn.slice"


def render_slice(unit: str) -> str:
    name = slice_name_of(unit)
    return _SLICE.format(
        unit=unit, slice_name=name, slice_file=f"/etc/systemd/system/{name}", drop_in=_drop_in(unit, "slice")
    )


def render_stop_hook(unit: str, *, sync: bool) -> str:
    """`sync`: write dirty files first, of the whole machine; without it they stay until the kernel has written them."""
    return _HOOK.format(drop_in=_drop_in(unit, "stop-hook"), command=("sync; " if sync else "") + _FIND + _RECLAIM)


def _drop_in(unit: str, what: str) -> str:
    return f"/etc/systemd/system/{unit}.d/zombiescope-{what}.conf"


def render_config(tables: Mapping[str, tuple[Mapping[str, object], Mapping[str, str]]]) -> str:
    """Of each table its values, and where each came from; one without an origin is a default."""
    lines = []
    for table, (values, origins) in tables.items():
        lines += [
            f"[{table}]",
            *(_line(name, value, origins.get(name, "default")) for name, value in values.items()),
            "",
        ]
    return "\n".join(lines)


def _line(name: str, value: object, origin: str) -> str:
    # The name of a file is a stranger's: a line break in it must not become a line of this one.
    return f"{f'{name} = {json.dumps(value)}':<40} # {shown_text(origin)}"
