# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

import click

from zombiescope.facts.names import shown

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
config_option = click.option(
    "--config", metavar="FILE", help="Thresholds from this file (TOML) instead of /etc/zombiescope.toml."
)
root_option = click.option(
    "--root",
    type=click.Path(path_type=bytes, readable=False),
    metavar="DIR",
    help="Look at a host mounted at DIR, or at a recorded one, instead of this host.",
)


manifests_option = click.option(
    "--manifests",
    type=click.Path(path_type=bytes),
    metavar="DIR",
    help="Kubernetes manifests and compose files too; alone, nothing else.",
)


def same_place(root: bytes | None, image: bytes | None = None) -> str:
    """The options that name the same machine, folder or image once more, for a line to paste."""
    from shlex import quote  # noqa: PLC0415

    given = (("root", root), ("image", image))
    return "".join(f" --{name} {quote(shown(value))}" for name, value in given if value is not None)
