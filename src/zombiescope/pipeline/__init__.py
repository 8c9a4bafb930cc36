# SPDX-License-Identifier: Apache-2.0
"""The story, one verb a file: open a machine, observe it, put it in numbers, judge."""

from typing import TYPE_CHECKING

from zombiescope.late import late

if TYPE_CHECKING:
    from zombiescope.pipeline import (
        asking_pods,
        audit,
        autopsy,
        carrying,
        opening,
        page_events,
        page_look,
        page_time,
        past_actions,
        plan,
        recall,
        scan,
        timeline,
    )
else:
    __getattr__ = late(__name__)
