# SPDX-License-Identifier: Apache-2.0
"""Five real minutes: churn raises nothing, and the leak beside it is named in time. The watch is `calm.py`."""

from __future__ import annotations

from tests.server import calm


def test_five_minutes_of_churn_raise_nothing_and_the_leak_beside_it_is_named() -> None:
    found = calm.outcome()
    print(found)
    assert found["seconds"] >= 300
    assert found["looks"] >= 10, "it was asked again and again"
    assert found["churned"] >= 1000, "there was churn, and the agent saw it; a busy machine makes less of it"
    assert found["false_alarms"] == []
    assert found["named_after"] is not None, "within the watch"
