# SPDX-License-Identifier: Apache-2.0
"""The quarterly audit without people: a systemd service and timer, or a scheduled job of GitHub Actions or GitLab CI.

Each compares with the accepted audit and runs the gate with its waivers; what changed for the worse fails, and so is seen.
"""

from __future__ import annotations

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
