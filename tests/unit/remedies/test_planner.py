# SPDX-License-Identifier: Apache-2.0
"""Origin before mechanism before symptom; nothing guessed; what is predicted is what the levers free."""

from __future__ import annotations

import json
import random

import pytest
from tests.unit.remedies.situations import UNIT, V1, V2, audit, autopsy, body, diagnosis, levers, pin, unit

from zombiescope.analysis.autopsy import Autopsy, Body, derive_totals
from zombiescope.diagnosis.audit import AuditSubject
from zombiescope.diagnosis.workload_audit import Need
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.reaping import Levers, SwapArea
from zombiescope.facts.zombies import HeldBy, PinKind
from zombiescope.presenters.document import null_fields
from zombiescope.presenters.plan_json import Asked, plan_gaps, render_plan
from zombiescope.presenters.plan_text import headline, next_command, render_plan_text
from zombiescope.remedies.choice import Activity
from zombiescope.remedies.plan import (
    AskHuman,
    DeleteFiles,
    DropFiles,
    Expected,
    PlaceFile,
    Plan,
    Reclaim,
    ReclaimWay,
    RemoveLinks,
    RewriteFiles,
    Risk,
    Undo,
)
from zombiescope.remedies.planner import freeing_alone, propose

CACHE, TMPFS = pin(PinKind.PAGE_CACHE, b"/var/log/x"), pin(PinKind.TMPFS, b"/dev/shm/x")


def names(plan: Plan) -> list[str]:
    return [step.name for step in plan.steps]


def test_the_maker_is_stopped_before_what_it_left_is_freed() -> None:
    plan = propose(
        diagnosis("zombie-population"), autopsy(body(CACHE), body(TMPFS)), audit(unit(need=Need.UNNEEDED)), levers()
    )
    assert names(plan) == [
        f"stop:{UNIT}", f"mask:{UNIT}", "drop-files", "rewrite:/dev/shm", "delete:/dev/shm", "newer-kernel",
    ]  # fmt: skip
    assert [step.n for step in plan.steps] == [1, 2, 3, 4, 5, 6]
    assert plan.makers == (f"unit:{UNIT}",)
    assert plan.out_of_reach == 0


def test_one_zombie_with_many_files_gives_the_same_plan_in_every_run() -> None:
    """Levers of one zombie are a set, and a set of bytes has another order in every process."""
    files = [b"/var/log/%d" % number for number in range(12)]
    held = autopsy(body(*(pin(PinKind.PAGE_CACHE, path) for path in reversed(files)), parent=b"/unreached"))
    plan = propose(diagnosis("zombie-population"), held, None, levers())
    (step,) = [step for step in plan.steps if step.name == "drop-files"]
    assert isinstance(step.change, DropFiles)
    assert [file.path for file in step.change.files] == sorted(files)


def test_a_healthy_host_has_nothing_to_do() -> None:
    plan = propose(diagnosis(), autopsy(body(CACHE)), audit(loops=()), levers())
    assert plan.steps == ()
    assert plan.zombies == 0


@pytest.mark.parametrize("seen", [None, autopsy()._replace(totals=derive_totals((body(CACHE),)))])
def test_zombies_that_could_not_be_looked_at_are_no_zero(seen: Autopsy | None) -> None:
    plan = propose(diagnosis(), seen, audit(loops=()), levers())
    assert (plan.zombies, plan.out_of_reach) == (None, None)
    assert {gap.fact for gap in plan_gaps(plan, "plan.")} == {"plan.zombies", "plan.out_of_reach"}
    assert (
        headline(plan) != headline(propose(diagnosis(), autopsy(), audit(loops=()), levers())) == "nothing to propose"
    )


def test_a_few_zombies_of_a_looping_unit_are_freed_and_those_of_others_left() -> None:
    others = body(TMPFS, maker="unit:other.service")
    plan = propose(diagnosis(), autopsy(body(CACHE), others), audit(unit(need=Need.UNNEEDED)), levers())
    assert names(plan) == [f"stop:{UNIT}", f"mask:{UNIT}", "drop-files", "newer-kernel"]
    assert plan.zombies == 1


def test_without_an_audit_nothing_is_stopped_and_without_an_autopsy_nothing_is_freed() -> None:
    assert names(propose(diagnosis("zombie-population"), autopsy(body(CACHE)), None, levers()))[0] == "drop-files"
    assert names(propose(diagnosis("zombie-population"), None, audit(unit(need=Need.UNNEEDED)), levers())) == [
        f"stop:{UNIT}", f"mask:{UNIT}",
    ]  # fmt: skip


def test_a_needed_unit_is_not_stopped_but_limited() -> None:
    plan = propose(diagnosis(), None, audit(unit(need=Need.NEEDED)), levers())
    assert names(plan) == [f"limit:{UNIT}", f"slice:{UNIT}"]
    change = plan.steps[0].change
    assert isinstance(change, PlaceFile)
    assert b"StartLimitIntervalSec=300\nStartLimitBurst=5\n" in change.content
    assert plan.steps[0].undo is Undo.EXACT


def test_a_unit_of_which_nothing_is_known_is_limited_and_stopped_but_not_masked() -> None:
    plan = propose(diagnosis(), None, audit(unit(need=Need.UNKNOWN)), levers())
    assert names(plan) == [f"limit:{UNIT}", f"stop:{UNIT}"]
    assert all(step.needs_consent for step in plan.steps)
    inside = propose(diagnosis(), None, audit(unit(need=Need.UNKNOWN), kind="inside"), levers())
    assert names(inside) == [f"stop:{UNIT}", f"mask:{UNIT}"]


def test_a_unit_below_etc_is_disabled_because_a_mask_has_no_place() -> None:
    links = {UNIT: (b"/etc/systemd/system/multi-user.target.wants/ecs.service",)}
    own = unit(need=Need.UNNEEDED, path=f"/etc/systemd/system/{UNIT}")
    plan = propose(diagnosis(), None, audit(own), levers(enabling_links=links))
    assert names(plan) == [f"stop:{UNIT}", f"disable:{UNIT}"]
    assert isinstance(plan.steps[1].change, RemoveLinks)


def test_stopping_what_nothing_needs_takes_no_consent_and_of_the_unknown_it_does() -> None:
    for need, consent in ((Need.UNNEEDED, False), (Need.UNKNOWN, True)):
        steps = propose(diagnosis(), None, audit(unit(need=need)), levers()).steps
        step = next(step for step in steps if step.name == f"stop:{UNIT}")
        assert step.needs_consent is consent
        assert step.risk is (Risk.MEDIUM if consent else Risk.LOW)


def test_an_unneeded_agent_that_does_not_loop_yet_asks_for_consent() -> None:
    plan = propose(diagnosis(), None, audit(unit(need=Need.UNNEEDED), loops=()), levers())
    assert names(plan) == [f"stop:{UNIT}", f"mask:{UNIT}"]
    assert all(step.needs_consent and step.finding == "unneeded-agent" for step in plan.steps)


def test_an_image_gets_a_preset_and_loses_the_links() -> None:
    links = {UNIT: (b"/etc/systemd/system/multi-user.target.wants/ecs.service",)}
    risky = audit(unit(need=Need.UNNEEDED), loops=(), subject=AuditSubject.IMAGE)
    plan = propose(diagnosis(), None, risky, Levers(enabling_links=links))
    assert names(plan) == ["preset", f"disable:{UNIT}"]
    assert isinstance(plan.steps[0].change, PlaceFile)
    assert b"disable ecs.service\n" in plan.steps[0].change.content


MAPPED = pin(PinKind.PAGE_CACHE, b"/lib/libc.so.6", mapped=1)


@pytest.mark.parametrize(
    ("hierarchy", "parent", "files", "way", "consent"),
    [
        (V2, b"/a", {b"/sys/fs/cgroup/a/memory.reclaim", b"/sys/fs/cgroup/a/memory.high"}, "memory.reclaim", False),
        (V2, b"/a", {b"/sys/fs/cgroup/a/memory.high"}, "memory.high", True),
        (V1, b"/a", {b"/sys/fs/cgroup/memory/a/memory.force_empty"}, "memory.force_empty", True),
        (V1, b"/", set[bytes](), "node", True),
    ],
)
def test_the_gentlest_way_to_reclaim(
    hierarchy: Hierarchy, parent: bytes, files: set[bytes], way: str, consent: bool
) -> None:
    here = levers(hierarchy, control_files=frozenset(files), node_reclaim=(b"/sys/devices/system/node/node0/reclaim",))
    plan = propose(diagnosis(), autopsy(body(MAPPED, parent=parent)), None, here, every_zombie=True)
    step = plan.steps[0]
    assert isinstance(step.change, Reclaim)
    assert step.change.way == ReclaimWay(way)
    assert step.needs_consent is consent
    assert step.expected is not None
    assert step.expected.zombies_freed is None
    assert step.expected.up_to == 1


def test_drop_caches_is_the_last_resort_and_only_where_nothing_else_reaches() -> None:
    bare = levers(V1, control_files=frozenset())
    plan = propose(diagnosis(), autopsy(body(MAPPED, parent=b"/")), None, bare, every_zombie=True)
    assert names(plan)[0] == "drop-caches"
    assert plan.steps[0].needs_consent
    reached = propose(diagnosis(), autopsy(body(MAPPED)), None, levers(), every_zombie=True)
    assert "drop-caches" not in names(reached)


def test_two_cached_files_are_dropped_both_but_not_where_a_mapped_one_needs_reclaim() -> None:
    other = pin(PinKind.PAGE_CACHE, b"/var/log/y")
    assert (
        names(propose(diagnosis(), autopsy(body(CACHE, other)), None, levers(), every_zombie=True))[0] == "drop-files"
    )
    mixed = propose(diagnosis(), autopsy(body(CACHE, MAPPED)), None, levers(), every_zombie=True)
    assert names(mixed)[0] == "reclaim:/system.slice"


def test_a_zombie_is_counted_at_the_step_that_removes_its_last_pin() -> None:
    bodies = [body(CACHE)] * 3 + [body(CACHE, TMPFS, pages=2)] * 2 + [body(TMPFS)]
    plan = propose(diagnosis(), autopsy(*bodies), None, levers(), every_zombie=True)
    expected = {step.name: step.expected for step in plan.steps if step.expected}
    assert expected["drop-files"].zombies_freed == 3
    assert expected["drop-files"].bytes_freed == 3 * 4096
    assert expected["delete:/dev/shm"].zombies_freed == 3
    assert expected["delete:/dev/shm"].bytes_freed == 5 * 4096


def test_files_are_kept_before_they_are_deleted_and_their_zombies_counted_once() -> None:
    plan = propose(diagnosis(), autopsy(body(TMPFS, pages=2)), None, levers(), every_zombie=True)
    keep, delete, *_ = plan.steps
    assert (keep.name, delete.name) == ("rewrite:/dev/shm", "delete:/dev/shm")
    assert (keep.risk, keep.undo, keep.needs_consent) == (Risk.MEDIUM, Undo.EXACT, True)
    assert keep.instead_of == (delete.name,)
    assert keep.change == RewriteFiles(getattr(delete.change, "files", ()))
    assert keep.expected == Expected(1, 0, 1), "the memory stays in use"
    assert delete.expected == Expected(1, 2 * 4096, 1)
    assert (plan.foreseen, plan.out_of_reach) == (1, 0)
    assert "with swap only moves it there" in delete.why


def test_attached_segments_are_left_to_people() -> None:
    held, free = pin(PinKind.SYSV_SHM, inode=5), pin(PinKind.SYSV_SHM, inode=6)
    here = levers(segments={5: 1, 6: 0})
    plan = propose(diagnosis(), autopsy(body(held), body(free)), None, here, every_zombie=True)
    step = next(step for step in plan.steps if step.name == "remove-segments")
    assert step.expected is not None
    assert step.expected.zombies_freed == 1
    assert plan.out_of_reach == 1


def test_swap_comes_back_only_where_memory_has_room() -> None:
    swapped = autopsy(body(pin(PinKind.SWAP, mapped=None, dirty=None)))
    for available, planned in ((3 << 20, True), (1 << 20, False), (None, False)):
        here = levers(swaps=(SwapArea(b"/swap", 1 << 20),), available_bytes=available)
        plan = propose(diagnosis(), swapped, None, here, every_zombie=True)
        assert ("swap-in" in names(plan)) is planned


def test_what_is_in_the_swap_cache_leaves_memory_before_swap_comes_back() -> None:
    """Swapped in while it is still in memory, a page would stay the zombie's."""
    entry, kept = pin(PinKind.SWAP, mapped=None, dirty=None), pin(PinKind.SWAP)
    mapped = pin(PinKind.PAGE_CACHE, b"/lib/x", mapped=1)
    here = levers(swaps=(SwapArea(b"/swap", 1 << 20),), available_bytes=3 << 20)
    for others, finding in (((), "pinned-swap"), ((body(mapped),), "pinned-page-cache")):
        found = autopsy(body(entry, pages=0), body(entry, kept, pages=0), *others)
        plan = propose(diagnosis(), found, None, here, every_zombie=True)
        first, second = plan.steps[:2]
        assert (first.name, second.name) == ("reclaim:/system.slice", "swap-in")
        assert isinstance(first.change, Reclaim)
        assert first.change.takes_swapped
        assert (first.change.size, first.finding) == (4096 * (1 + len(others)), finding)
        assert first.needs_consent
        assert "1 zombie holds pages that were swapped out and are still in memory" in first.why
        assert [step.expected.up_to for step in (first, second) if step.expected] == [len(others), 2]
    (alone,) = propose(diagnosis(), autopsy(body(mapped)), None, levers(hands_pages_on=True), every_zombie=True).steps
    assert isinstance(alone.change, Reclaim)
    assert not alone.change.takes_swapped
    assert not alone.needs_consent


def test_files_that_programs_keep_below_run_are_never_deleted() -> None:
    plan = propose(diagnosis(), autopsy(body(pin(PinKind.TMPFS, b"/run/nologin"))), None, levers(), every_zombie=True)
    assert names(plan) == ["look-at-files", "newer-kernel"]
    assert all(isinstance(step.change, AskHuman) for step in plan.steps)


def test_a_kernel_that_hands_pages_on_is_not_told_to_be_newer() -> None:
    plan = propose(diagnosis(), autopsy(body(CACHE)), None, levers(hands_pages_on=True), every_zombie=True)
    assert names(plan) == ["drop-files"]


def test_the_same_situation_gives_the_same_plan_in_any_order() -> None:
    bodies = [body(pin(PinKind.TMPFS, b"/dev/shm/%d" % number)) for number in range(50)]
    first = propose(diagnosis(), autopsy(*bodies), None, levers(), every_zombie=True)
    random.Random(1).shuffle(bodies)
    assert propose(diagnosis(), autopsy(*bodies), None, levers(), every_zombie=True) == first


def test_what_to_type_next_does_what_was_planned_and_no_more() -> None:
    here = Asked("unit:ecs*", "/a b")
    assert str(next_command([], Asked())) == "to do it: zombiescope apply --yes"
    assert str(next_command([], here)) == "to do it: zombiescope apply --yes --maker 'unit:ecs*' --below '/a b'"
    image = str(next_command(["x"], Asked(root="/mnt")))
    assert image == "to do it: zombiescope apply --yes --root /mnt --consent x"
    recorded = next_command([], Asked(is_elsewhere=True))
    assert str(recorded) == "to do it, on the host that was recorded: zombiescope apply --yes"


def test_every_null_of_the_document_has_a_gap_and_the_text_names_every_step() -> None:
    bodies = [
        body(CACHE),
        body(MAPPED),
        body(pin(PinKind.OTHER)),
        body(pin(PinKind.SOCKET, holder=HeldBy(7, b"\x1b[31m"))),
    ]
    plan = propose(diagnosis("zombie-population"), autopsy(*bodies), audit(unit(need=Need.UNNEEDED)), levers())
    document = json.loads(json.dumps(render_plan(plan)))
    assert set(null_fields(document)) == {gap.fact for gap in plan_gaps(plan)}
    text = "\n".join(str(part) for part in render_plan_text(plan, ()))
    assert all(step.title in text for step in plan.steps)
    assert "\x1b" not in text


def test_the_unit_that_leaves_zombies_is_treated_before_the_louder_one_that_leaves_none() -> None:
    units = (unit("loud.service"), unit("quiet.service", need=Need.UNNEEDED), unit("sloppy.service"))
    left = [body(CACHE, maker="unit:quiet.service") for _ in range(3)] + [body(CACHE, maker="unit:sloppy.service")]
    found = audit(*units, loops=("loud.service", "sloppy.service", "quiet.service"))
    plan = propose(diagnosis("zombie-population"), autopsy(*left), found, levers())
    assert names(plan)[:6] == [
        "stop:quiet.service", "mask:quiet.service", "limit:sloppy.service", "stop:sloppy.service", "limit:loud.service",
        "stop:loud.service",
    ]  # fmt: skip
    assert names(plan)[6] == "drop-files"


def test_who_makes_more_now_and_loops_nowhere_is_to_be_stopped_first_by_people() -> None:
    activity = Activity(growing=(("unit:job.service", "job.timer"), ("pod:1234", None)))
    plan = propose(diagnosis("zombie-population"), autopsy(body(TMPFS)), audit(loops=()), levers(), activity=activity)
    assert names(plan)[:3] == ["stop-maker:unit:job.service", "stop-maker:pod:1234", "rewrite:/dev/shm"]
    assert isinstance(plan.steps[0].change, AskHuman)
    assert plan.steps[0].change.commands[0].startswith("systemctl stop job.timer")
    assert plan.makers[:2] == ("unit:job.service", "pod:1234")


def deleted(plan: Plan) -> list[bytes]:
    changes = [step.change for step in plan.steps]
    return [file.path for change in changes if isinstance(change, DeleteFiles) for file in change.files]


def test_a_file_that_holds_a_zombie_born_while_we_looked_is_not_deleted() -> None:
    def made(path: bytes, born: float | None, maker: str = "unit:x.service") -> Body:
        one = body(pin(PinKind.TMPFS, path), maker=maker)
        return one._replace(zombie=one.zombie._replace(born_at=born))

    bodies = (made(b"/dev/shm/log", 10.0), made(b"/dev/shm/log", 101.0), made(b"/dev/shm/old", 10.0))
    plan = propose(diagnosis("zombie-population"), autopsy(*bodies), None, levers(), activity=Activity(since=100.0))
    assert deleted(plan) == [b"/dev/shm/old"]
    unknown = (made(b"/dev/shm/log", None), made(b"/dev/shm/old", None, "unit:calm.service"))
    growing = Activity(growing=(("unit:x.service", None),), since=100.0)
    plan = propose(diagnosis("zombie-population"), autopsy(*unknown), None, levers(), activity=growing)
    assert deleted(plan) == [b"/dev/shm/old"]


def test_a_gap_of_a_recording_is_no_reason_to_drop_all_caches() -> None:
    mapped = pin(PinKind.PAGE_CACHE, None, path_in_fs=b"/x", mapped=1)
    bare = Levers(hierarchy=V2)
    assert "drop-caches" in names(propose(diagnosis(), autopsy(body(mapped)), None, bare, every_zombie=True))
    untold = bare._replace(untold=frozenset({b"/system.slice"}))
    assert "drop-caches" not in names(propose(diagnosis(), autopsy(body(mapped)), None, untold, every_zombie=True))


def test_a_file_that_a_process_has_open_is_left_alone_and_its_user_named() -> None:
    used = pin(PinKind.TMPFS, b"/dev/shm/queue", inode=8, holder=HeldBy(12, b"broker"))
    plan = propose(diagnosis("zombie-population"), autopsy(body(used), body(TMPFS)), None, levers())
    assert deleted(plan) == [b"/dev/shm/x"]
    (step,) = [step for step in plan.steps if step.name == "leave-files"]
    assert isinstance(step.change, AskHuman)
    assert step.change.commands == ("fuser -v /dev/shm/queue",)
    assert [remedy.target for remedy in body(used).remedies] == ["pid 12 (broker)", "/dev/shm/queue"]


def test_a_plan_for_one_zombie_has_only_what_frees_it() -> None:
    whole = propose(
        diagnosis("zombie-population"),
        autopsy(body(TMPFS)),
        audit(unit(need=Need.UNNEEDED)),
        levers(),
        every_zombie=True,
    )
    alone = freeing_alone(whole)
    assert names(alone) == ["rewrite:/dev/shm", "delete:/dev/shm"]
    assert [step.n for step in alone.steps] == [1, 2]
    assert alone.id != whole.id
    asked = Asked(zombie=6_245_670)
    assert str(next_command(["rewrite:/dev/shm"], asked)).startswith(
        "to do it: zombiescope apply --yes --zombie 6245670 --consent"
    )
