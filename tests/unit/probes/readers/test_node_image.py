# SPDX-License-Identifier: Apache-2.0
"""The image of a machine: cloud-init's word first, then that of os-release."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import ScriptedHost

from zombiescope.probes.readers.node import read_node_image, read_node_zone

CLOUD, RELEASE = b"/run/cloud-init/instance-data.json", b"/etc/os-release"


@pytest.mark.parametrize(
    ("files", "image"),
    [
        ({}, ""),
        ({RELEASE: b'ID=debian\nVERSION_ID="12"\n'}, "debian 12"),
        ({RELEASE: b"ID=arch\nIMAGE_ID=base\nIMAGE_VERSION=7\n"}, "base 7"),
        ({b"/usr/lib/os-release": b"ID='void'\n"}, "void"),
        ({CLOUD: b"{", RELEASE: b"ID=debian\n"}, "debian"),
        ({CLOUD: json.dumps({"ds": {"meta_data": {"ami-id": "ami-0abc"}}}).encode(), RELEASE: b"ID=x"}, "ami-0abc"),
        ({CLOUD: json.dumps({"ds": {"meta_data": {"image": "a\nb"}}}).encode()}, "a\\x0ab"),
        ({CLOUD: json.dumps({"ds": ["meta_data"]}).encode()}, ""),
        ({RELEASE: b"ID=" + b"x" * 500}, "x" * 100),
    ],
)
def test_where_the_image_is_told(files: dict[bytes, bytes], image: str) -> None:
    assert read_node_image(ScriptedHost(files)) == image


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_give_a_printable_name(cloud: bytes, release: bytes) -> None:
    assert read_node_image(ScriptedHost({CLOUD: cloud, RELEASE: release})).isprintable()


@pytest.mark.parametrize(
    ("cloud", "zone"),
    [
        (b'{"v1": {"availability_zone": "eu-1a"}}', "eu-1a"),
        (b'{"ds": {"meta_data": {"availability-zone": "eu-1b"}}}', "eu-1b"),
        (b'{"ds": {"dynamic": {"instance-identity": {"document": {"availabilityZone": "eu-1c"}}}}}', "eu-1c"),
        (b'{"v1": {"availability_zone": "a\\u001bb"}}', r"a\x1bb"),
        (b'{"v1": {"availability_zone": 7}}', ""),
        (b"[[[", ""),
    ],
)
def test_the_zone_is_what_the_cloud_says(cloud: bytes, zone: str) -> None:
    assert read_node_zone(ScriptedHost({CLOUD: cloud})) == zone
    assert read_node_zone(ScriptedHost({})) == ""
