# SPDX-License-Identifier: Apache-2.0
"""The commands of the install page, by the place they are declared for (`in=`): each test runs those of its place, literally."""

from __future__ import annotations

import shlex

from tests.release.roots import Root
from tools.fences import Fence, fences_of

PAGE = "docs/guides/install.md"
SIGNING = "docs/guides/release.md"
TRACE = ("Traceback (most recent call last)", "this is a bug")


def fences(place: str, document: str = PAGE) -> list[Fence]:
    found = [fence for fence in fences_of(document) if place in fence.places]
    assert found, f"{document} declares no command for {place}"
    return found


def follow(place: str, root: Root, **variables: str) -> list[str]:
    """What each command said; the first that does not end as the page says fails the test."""
    said = []
    for fence in fences(place):
        done = root.entered(fence.script, fence.limit_seconds * 4, **variables)
        judge(fence, done.status, done.said)
        said.append(done.said)
    return said


def follow_without_shell(place: str, root: Root) -> list[str]:
    """Line by line, where there is nothing but the program."""
    said = []
    for fence in fences(place):
        for line in fence.script.splitlines():
            done = root.executed(shlex.split(line), fence.limit_seconds * 4)
            judge(fence, done.status, done.said)
            said.append(done.said)
    return said


def judge(fence: Fence, status: int, said: str) -> None:
    assert status in fence.exits, f"{fence.name}: {fence.script}\nended with {status}:\n{said[-3000:]}"
    assert not any(words in said for words in TRACE), said[-3000:]
