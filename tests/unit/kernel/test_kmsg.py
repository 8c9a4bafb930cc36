# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.kernel.kmsg import Dating, KmsgRecord, parse_record


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
    assert parse_record(raw, Dating(100.0)) == record


@given(st.binary(max_size=200))
def test_any_bytes_give_a_record_or_nothing(raw: bytes) -> None:
    record = parse_record(raw, Dating(0.0))
    assert record is None or record.sequence >= 0


def test_a_line_is_dated_by_the_drift_of_its_clock() -> None:
    """2 s behind after 1,000,000 s: a line of now by all of it, one of the middle by half."""
    dating = Dating(1_700_000_000.0, 2.0 / 999_998.0)
    assert dating.on_wall(999_998.0) == pytest.approx(1_700_000_000.0 + 1_000_000.0, abs=1e-3)
    assert dating.on_wall(499_999.0) == pytest.approx(1_700_000_000.0 + 500_000.0, abs=1e-3)
    assert dating.on_wall(0.0) == 1_700_000_000.0
