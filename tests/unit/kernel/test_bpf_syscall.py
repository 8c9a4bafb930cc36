# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

import pytest

from zombiescope.kernel.bpf_object import BpfRefusedError, refusal


@pytest.mark.parametrize(
    "number", [errno.EPERM, errno.ENOSYS, errno.EINVAL, errno.E2BIG, errno.ENOENT, errno.ENOMEM, 524]
)
def test_every_expected_refusal_is_said_in_words(number: int) -> None:
    error = refusal("PROG_LOAD", number)
    assert isinstance(error, BpfRefusedError)
    assert (error.number, error.exit_code) == (number, 3)
    assert error.why.startswith("bpf(PROG_LOAD) failed with ") and ": " in error.why
    assert error.hint


def test_an_unexpected_refusal_still_names_its_errno() -> None:
    error = refusal("MAP_CREATE", errno.EXDEV)
    assert "EXDEV" in error.why
