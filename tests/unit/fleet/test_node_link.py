# SPDX-License-Identifier: Apache-2.0
"""Links to nodes: whatever a label holds, an address of http or https comes out, or none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.errors import UsageError
from zombiescope.presenters.fleet_json import INSTANCE_PAGE, NodeLinks


@pytest.mark.parametrize(
    ("template", "instance", "address"),
    [
        (INSTANCE_PAGE, "10.0.0.7:9478", "http://10.0.0.7:9478/"),
        (INSTANCE_PAGE, "[fe80::1]:9478", "http://[fe80::1]:9478/"),
        (INSTANCE_PAGE, None, None),
        ("https://{node}.example/zombiescope/?z={zone}", None, "https://n1.example/zombiescope/?z=a%20%26%20b"),
        ("HTTPS://gate.example/{instance}", "x:1", "https://gate.example/x%3A1"),
        ("http://gate.example/{rack}", None, None),
        ("http://gate.example", None, "http://gate.example/"),
    ],
)
def test_what_a_template_makes(template: str, instance: str | None, address: str | None) -> None:
    assert NodeLinks(template).of("n1", {"zone": "a & b"}, instance) == address


@pytest.mark.parametrize(
    "template",
    [
        "javascript:alert(1)", "data:text/html,x", "//host/", "host", "ftp://host/", "http://", "http:///x", "http://u:p@host/",
        "http://host/\n", "http://host/<b>", "http://host/{", "http://ho st/", "http://host\\@evil/", "", "http://host/é",
    ],
)  # fmt: skip
def test_what_is_refused(template: str) -> None:
    with pytest.raises(UsageError) as caught:
        NodeLinks(template)
    assert caught.value.hint


@pytest.mark.parametrize(
    "instance",
    [
        "javascript:alert(1)",
        "evil.example/?",
        "a@b",
        "a b",
        "a\nb",
        "",
        "-x",
        "x:99999999",
        "[::1",
        "x/../y",
        "\u202ex",
        "ex\\a",
    ],
)
def test_an_instance_that_is_no_host_makes_no_link(instance: str) -> None:
    assert NodeLinks(INSTANCE_PAGE).of("n", {}, instance) is None


@given(st.text(), st.text())
def test_any_text_stays_in_its_place(node: str, instance: str) -> None:
    for template in (INSTANCE_PAGE, "https://gate.example/{node}?i={instance}", "http://{node}/"):
        found = NodeLinks(template).of(node, {}, instance)
        assert found is None or re.fullmatch(r"https?://[A-Za-z0-9._:\[\]-]+/[A-Za-z0-9._~%?=-]*", found)
