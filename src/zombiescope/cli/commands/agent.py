# SPDX-License-Identifier: Apache-2.0
"""`zombiescope agent`: follows this host, remembers, and serves what it knows."""

from __future__ import annotations

import gc
import sys
from shlex import quote

import click

from zombiescope import presenters
from zombiescope.cli.command import PlainAnswer, examples, root_option
from zombiescope.cli.progress import tell
from zombiescope.config import load_config, load_profile_config
from zombiescope.host.children import KeptChild


@click.command(
    epilog=examples(
        "zombiescope agent                                    serve on 127.0.0.1:9753, keep in /var/lib/zombiescope",
        "zombiescope agent --listen 127.0.0.1:0 --state /tmp/zs",
        "zombiescope agent --config /etc/zombiescope.toml     keys: docs/reference/configuration.md",
        "zombiescope agent --show-config                      every value, and where it comes from",
        "zombiescope agent --textfile /var/lib/node_exporter/zombiescope.prom --listen ''",
        "zombiescope agent --listen unix:/run/zombiescope-agent/http.sock    for its owner alone",
        "curl -s 127.0.0.1:9753/metrics",
        "zombiescope history                                  what it remembers",
    )
)
@click.option(
    "--listen",
    metavar="ADDR:PORT|unix:PATH",
    help="Where to serve /metrics, /healthz and /api/v1; '' serves nowhere; a path is a socket that only its owner can open.",
)
@click.option("--token-file", metavar="FILE", help="Readers must send what it holds: Authorization: Bearer TOKEN.")
@click.option("--state", metavar="DIR", help="Where to keep the history; '' keeps none.")
@click.option("--textfile", metavar="FILE", help="Also write the metrics here, for node_exporter's textfile collector.")
@click.option("--config", "file", metavar="FILE", help="Configuration in TOML.")
@click.option(
    "--show-config", is_flag=True, help="Print every value and where it comes from, as a configuration file, and exit."
)
@root_option
def agent(
    *,
    listen: str | None,
    token_file: str | None,
    state: str | None,
    textfile: str | None,
    file: str | None,
    show_config: bool,
    root: bytes | None,
) -> PlainAnswer | None:
    """Follow this host: births and deaths as they happen, zombies by maker, growth; remember it; serve it to Prometheus.

    Reads only; listens on the loopback address unless told otherwise. Runs until SIGTERM; SIGHUP reads the configuration again.
    """
    flags = {"listen": listen, "token_file": token_file, "state": state, "textfile": textfile}
    profile = load_profile_config(file, {})
    if show_config:
        config = load_config(file, flags)
        thresholds = config.thresholds._asdict()
        origins = {name: config.origins.get(f"thresholds.{name}", "default") for name in thresholds}
        told = {"agent": (config.values, config.origins), "profile": (profile.values, profile.origins)}
        return PlainAnswer(presenters.systemd_unit.render_config({**told, "thresholds": (thresholds, origins)}))
    gc.disable()  # the hundreds of modules it loads are no garbage: looked through again and again they cost more than they weigh
    from zombiescope.agent.loop import serve  # noqa: PLC0415 (only this command pays for it)

    config = load_config(file, flags)
    recorder = _recorder(file) if profile.values["record"] else None
    serve(root, config, lambda: load_config(file, flags), recorder)
    if folder := config.text("state"):
        tell(f"\nended; to read what it remembers: zombiescope history --state {quote(folder)}", only_watched=True)
    return None


def _recorder(file: str | None) -> KeptChild:
    """In a process of its own, with a budget and a memory of its own."""
    words = [sys.executable, "-P", "-m", "zombiescope", "profile", "record", "--service"]
    return KeptChild([*words, *(["--config", file] if file else [])])
