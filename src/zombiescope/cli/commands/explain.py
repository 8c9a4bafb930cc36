# SPDX-License-Identifier: Apache-2.0
"""`zombiescope explain`: what a word in a report means. Reads nothing of the host."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from zombiescope import presenters
from zombiescope.cli.command import Answer, TextAnswer, examples
from zombiescope.pipeline.explain import DOCUMENTS, Library


def _complete(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    words = (word for kind in Library().words().values() for word in kind)
    return [CompletionItem(word) for word in words if word.startswith(begun)]


@click.command(
    epilog=examples(
        "zombiescope explain                       every word there is a page for",
        "zombiescope explain runbook               a node is sick: what to do, in five steps",
        "zombiescope explain decision-matrix       which cure fits which symptom",
        "zombiescope explain zombie-population     a finding of doctor",
        "zombiescope explain tmpfs                 what keeps a zombie",
        "zombiescope explain memcg_zombies         a metric of the agent",
        "zombiescope explain 'parents[].zombies'   a fact that was unknown, and how to get it",
    )
)
@click.argument("words", nargs=-1, metavar="[PAGE|FINDING|PIN|METRIC|GAP]", shell_complete=_complete)
def explain(*, words: tuple[str, ...]) -> Answer:
    """Say what a finding, a kind of pin, a metric or a gap means, why it matters and what to do. Works offline.

    `runbook` and `decision-matrix` are whole pages. Without a word it lists all of them.

    Exit code 0, or 2 for a word that it does not know.
    """

    library = Library()
    if not words:
        return TextAnswer(presenters.explain_text.render_list(library.words()))
    word = " ".join(words)
    if document := library.document(word):
        return TextAnswer(presenters.explain_text.render_document(document, DOCUMENTS[word]))
    first, *rest = library.pages(word)
    parts = presenters.explain_text.render_page(first)
    for page in rest:
        parts += ["", *presenters.explain_text.render_page(page)]
    return TextAnswer(parts)
