# SPDX-License-Identifier: Apache-2.0
"""`zombiescope completion`: the script that teaches a shell our commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from zombiescope.cli.command import Answer, PlainAnswer, examples
from zombiescope.errors import UsageError


@click.command(
    epilog=examples(
        "zombiescope completion bash > /etc/bash_completion.d/zombiescope",
        'zombiescope completion zsh  > "${fpath[1]}/_zombiescope"',
        "zombiescope completion fish > ~/.config/fish/completions/zombiescope.fish",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> Answer:
    """Print the completion script of a shell."""
    maker = get_completion_class(shell)
    if maker is None:
        raise UsageError(
            f"cannot complete for {shell}",
            "the command line library does not know this shell",
            "zombiescope completion bash",
        )
    return PlainAnswer(maker(context.find_root().command, {}, "zombiescope", "_ZOMBIESCOPE_COMPLETE").source())
