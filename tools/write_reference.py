# SPDX-License-Identifier: Apache-2.0
"""Writes the pages of docs/ that have another source: the catalogues, the configuration, the commands. A test keeps them equal.

The pages of the documentation that `explain` shows offline are copied into the package, as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tools import reference_pages  # noqa: E402

from zombiescope.config import DEFAULT_FILE, ENVIRONMENT_PREFIX, KEYS, PROFILE_KEYS, PROFILE_PREFIX  # noqa: E402
from zombiescope.diagnosis.thresholds import Thresholds  # noqa: E402
from zombiescope.facts.metric_names import METRICS, MOST_SERIES, SWEEP_BUCKETS  # noqa: E402
from zombiescope.pipeline.explain import DOCUMENTS  # noqa: E402


def metrics() -> str:
    rows = [
        f"| `{metric.name}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.help} |"
        for metric in METRICS
    ]
    return "\n".join(
        [
            "# Metrics",
            "",
            "Written by `tools/write_reference.py` from `facts/metric_names.py`; a test keeps them equal.",
            "",
            f"At most {MOST_SERIES} series per node. Base units. No label is a CPU number, or the id of a pod, a",
            "container or a session.",
            "What is not known has no sample: absent is never zero. `/metrics` gives the classic text format,",
            "and OpenMetrics when the `Accept` header asks for it.",
            "",
            "| metric | kind | labels | what it says |",
            "|---|---|---|---|",
            *rows,
            "",
            f"Buckets of `zombiescope_stat_sweep_seconds`: {', '.join(f'{bound:g}' for bound in SWEEP_BUCKETS)} seconds.",
            "",
            "Alert rules: `zombiescope export rules`, explained in [alerts](../guides/alerts.md).",
            "Dashboard: `zombiescope export dashboard`.",
            "",
        ]
    )


def _profile() -> list[str]:
    rows = [
        f"| `{key.name}` | `{str(key.default).lower() if isinstance(key.default, bool) else repr(key.default)}` | {key.unit} | "
        f"{key.meaning} |"
        for key in PROFILE_KEYS
    ]
    return [
        "## `[profile]`",
        "",
        "The recorder that is always on: `profile record --service`, as a unit of its own (`export profile-unit`) or kept",
        "running by the agent (`record = true`). Off by default.",
        f"In the environment: `{PROFILE_PREFIX}` and the key in capitals.",
        "",
        "| key | default | unit | meaning |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def configuration() -> str:
    keys = [f"| `{key.name}` | `{key.default!r}` | {key.unit} | {key.meaning} |" for key in KEYS]
    limits = [f"| `{name}` | `{value!r}` |" for name, value in Thresholds()._asdict().items()]
    return "\n".join(
        [
            "# Configuration",
            "",
            "Written by `tools/write_reference.py` from `config.py`; a test keeps them equal.",
            "",
            f"One TOML file, `{DEFAULT_FILE}` or `--config FILE`. Later wins: default, file, environment",
            f"(`{ENVIRONMENT_PREFIX}` and the key in capitals), flag.",
            "`zombiescope agent --show-config` prints every value with its origin, `/api/v1/config` those of a running agent.",
            "An unknown key is an error that names the nearest one.",
            "As root, a file that belongs to somebody else, or that others may write, is refused.",
            "SIGHUP reads the file again, and the token; `listen`, `state` and `events` change only with a restart.",
            "",
            "## `[agent]`",
            "",
            "| key | default | unit | meaning |",
            "|---|---|---|---|",
            *keys,
            "",
            *_profile(),
            "## `[thresholds]`",
            "",
            "Every number that a judgement compares with: of `agent`, `scan`, `doctor`, `check`, `history`, `plan`, `apply` and",
            "`export rules` alike, each of which reads the same file (all but `apply` take `--config FILE`).",
            "`check` takes from here what its own `[check]` table does not set; its `[[waiver]]` and `[[need]]` may",
            "stand in the same file.",
            "With `--root` and a recording, a folder or an image this host's file is not read, so that the same recording gets the",
            "same verdict everywhere; a file named by `--config` counts. With `--root /host`, a host mounted there, it is read.",
            "",
            "| key | default |",
            "|---|---|",
            *limits,
            "",
        ]
    )


def _guide(word: str) -> Callable[[], str]:
    return lambda: (ROOT / f"docs/guides/{word}.md").read_text(encoding="utf-8")


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/metrics.md": metrics,
    "docs/reference/configuration.md": configuration,
    "docs/reference/commands.md": reference_pages.commands,
    "docs/reference/exit-codes.md": reference_pages.exit_codes,
    "docs/reference/findings.md": reference_pages.findings,
    "docs/reference/gaps.md": reference_pages.gaps,
    "docs/decisions/README.md": reference_pages.decisions,
    **{f"src/zombiescope/data/{word}.md": _guide(word) for word in DOCUMENTS},
}


def main() -> None:
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
