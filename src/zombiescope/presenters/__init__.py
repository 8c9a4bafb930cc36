# SPDX-License-Identifier: Apache-2.0
"""Data to text, JSON or markup: same data, same bytes. Core."""

from typing import TYPE_CHECKING

from zombiescope.late import late

if TYPE_CHECKING:
    from zombiescope.presenters import (
        actions,
        audit_json,
        audit_text,
        autopsy_text,
        cores,
        doctor_report,
        doctor_text,
        document,
        explain_text,
        gate_json,
        history_json,
        history_text,
        layout,
        now_json,
        plan_json,
        plan_text,
        receipt_text,
        scan_json,
        scan_text,
        systemd_unit,
    )
else:
    __getattr__ = late(__name__)
