# SPDX-License-Identifier: Apache-2.0
"""The `reap/1` document: one pass, or the last one of a watch, with what all of them freed and cost."""

from __future__ import annotations

from zombiescope.analysis.reaping import Pass
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.reaping import Done, Order
from zombiescope.presenters.document import Json, document
from zombiescope.presenters.reap_text import why_left


def render_reap_json(last: Pass) -> Json:
    tally, choice = last.tally, last.choice
    body: Json = {
        "state": last.state,
        "why": last.why,
        "zombies": last.zombies,
        "evictable": choice.evictable,
        "orders": [_order(order) for order in choice.orders],
        "refused": [_refused(each) for each in last.done if each.refused],
        "left": [
            {"reason": reason, "zombies": count, "why": why_left(reason)} for reason, count in choice.left.items()
        ],
        "freed": {"zombies": tally.freed, "pages": tally.pages},
        "cost": {
            "cpu_seconds": tally.cpu_seconds,
            "seconds": tally.seconds,
            "passes": tally.passes,
            "walks": tally.walks,
        },
    }
    unknown = any(each.pages is None for each in last.done)
    gaps = [Gap("freed.pages", "the kernel does not say how many pages memory.reclaim found")] if unknown else []
    return document("reap/1", last, body, gaps)


def _order(order: Order) -> Json:
    return {
        "action": order.lever,
        "target": shown(order.target),
        "parent": shown(order.parent),
        "pages": order.pages,
        "zombies": len(order.zombies),
    }


def _refused(done: Done) -> Json:
    return {"target": shown(done.order.target), "why": done.refused}
