# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.kernel.kmsg import KmsgRecord, parse_record


@pytest.mark.parametrize(
    ("raw", "record"),
    [
        (
            b"6,339,5140900,-;hello\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:05.0\n",
            KmsgRecord(339, 105.1409, True, b"hello"),
        ),
        (b"12,1,1000000,-;forged\n", KmsgRecord(1, 101.0, False, b"forged")),
        (b"30,2,1000000,-,caller=T1;systemd\n", KmsgRecord(2, 101.0, False, b"systemd")),
        (b"4,3,0,c;a\\x0ab\\x5cc;d\n", KmsgRecord(3, 100.0, True, b"a\nb\\c;d")),
        (b"no semicolon", None),
        (b"a,b,c;d", None),
        (b"6,339;short", None),
        (b"", None),
    ],
)
def test_a_record_of_the_kernels_log(raw: bytes, record: KmsgRecord | None) -> None:
    assert parse_record(raw, 100.0) == record


@given(st.binary(max_size=200))
def test_any_bytes_give_a_record_or_nothing(raw: bytes) -> None:
    record = parse_record(raw, 0.0)
    assert record is None or record.sequence >= 0
