# SPDX-License-Identifier: Apache-2.0
"""A found holder stands for the reference it explains; what stays unexplained stays said."""

from __future__ import annotations

from zombiescope.analysis.autopsy import pages_of
from zombiescope.analysis.held import (
    explain,
    files_in_question,
    holders_beside_pages,
    is_unexplained,
    split_by_residual,
    with_file_holders,
)
from zombiescope.facts.cgroups import MemoryUse, Residuals
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import DeadCgroupSocket, DeletedTask, DeletedTasks, PageFreePins, SocketCandidates
from zombiescope.facts.zombies import HeldBy, Holder, Pages, Pin, PinKind, References, Tier, Walk, Zombie

NAMELESS = Pin(PinKind.OTHER, None, None, None, None, None, None, sampled=False)
FILE = Pin(PinKind.TMPFS, b"/t", b"/t", "tmpfs", "0:5", 3, 1, sampled=False)


def said(pin: Pin) -> str | None:
    return pin.holder and pin.holder.said


def zombie(*pins: Pin, rest: int | None = 1) -> Zombie:
    return Zombie(
        9, 77, b"/a/z", 2, b"/a", None, None, References(2, 1, 0, 0, rest), Pages(0, 1, 0, 0, 0), pins, None, None
    )


def socket(inode: int = 5) -> Holder:
    return Holder(77, PinKind.SOCKET, 4711, b"x\ny", 1, inode, "unix")


def kinds(found: Zombie) -> list[PinKind]:
    return [pin.kind for pin in found.pins]


def test_a_holder_takes_the_place_of_the_nameless_reference() -> None:
    (found,) = explain([zombie(FILE, NAMELESS)], [socket()])
    assert kinds(found) == [PinKind.TMPFS, PinKind.SOCKET]
    assert said(found.pins[1]) == r"pid 4711 (x\x0ay), unix socket 5"
    assert not is_unexplained(found)


def test_fewer_holders_than_references_leave_something_unnamed() -> None:
    (found,) = explain([zombie(NAMELESS, rest=2)], [socket()])
    assert kinds(found) == [PinKind.OTHER, PinKind.SOCKET]
    assert is_unexplained(found)


def test_where_the_rest_is_not_known_nothing_is_called_complete() -> None:
    (found,) = explain([zombie(NAMELESS, rest=None)], [socket()])
    assert PinKind.OTHER in kinds(found)


def test_holders_of_others_and_pins_that_are_explained_change_nothing() -> None:
    explained, other = zombie(FILE), socket()._replace(serial=1)
    assert explain([explained], [socket()]) == (explained,)
    assert explain([zombie(NAMELESS)], [other]) == (zombie(NAMELESS),)


def test_an_unreaped_task_says_who_should_reap_it() -> None:
    (found,) = explain([zombie(NAMELESS)], [Holder(77, PinKind.TASK, 12, b"job", 3, 0, "")])
    assert said(found.pins[0]) == "pid 12 (job), to be reaped by pid 3"


def test_shared_memory_without_a_name_is_asked_for_and_given_its_holder() -> None:
    memfd = Pin(PinKind.MEMFD, None, b"/memfd:x", "tmpfs", "0:1", 9, 1, sampled=False)
    unlinked = FILE._replace(path=None)
    mapped = FILE._replace(kind=PinKind.PAGE_CACHE, inode=8, mapped=1, path=b"/usr/lib/libc.so")
    clean = mapped._replace(inode=11, mapped=0)
    asked = files_in_question([zombie(memfd), zombie(FILE), zombie(unlinked), zombie(mapped), zombie(clean)])
    assert set(asked) == {("0:1", 9), ("0:5", 3), ("0:5", 8)}
    assert asked["0:5", 8] == b"libc.so"
    named, unlinked_too = with_file_holders([zombie(memfd), zombie(unlinked)], {("0:1", 9): HeldBy(5, b"x")})
    assert said(named.pins[0]) == "pid 5 (x)"
    assert unlinked_too.pins[0].holder is None


NOTHING = Gap("x", "not asked")


def beside(tasks: tuple[DeletedTask, ...] = (), sockets: tuple[DeadCgroupSocket, ...] = ()) -> PageFreePins:
    return PageFreePins(DeletedTasks(tasks), SocketCandidates(sockets))


def test_without_the_kernels_lists_tasks_are_shared_out_by_former_path() -> None:
    tasks = tuple(DeletedTask(b"/a/z", None, 10 + n, b"job", "Z", 1) for n in range(3))
    twins = [zombie(NAMELESS), zombie(NAMELESS)._replace(serial=78)]
    found = holders_beside_pages(twins, beside(tasks))
    assert [(holder.serial, holder.process) for holder in found] == [(77, 10), (78, 11)]


def test_without_the_kernels_lists_a_socket_proves_its_zombie_by_id() -> None:
    dead = DeadCgroupSocket(9, "tcp", 555, (42,))
    (found,) = explain([zombie(NAMELESS)], holders_beside_pages([zombie(NAMELESS)], beside(sockets=(dead,))))
    assert said(found.pins[0]) == "pid 42, tcp socket 555"


def test_refused_readers_give_no_holders() -> None:
    assert holders_beside_pages([zombie(NAMELESS)], PageFreePins(NOTHING, NOTHING)) == []


GAPS = tuple(Gap(f"zombies[].pages.{kind}", "too long") for kind in ("shmem", "anon"))
PAGE = 4096


def _zombie(number: int, unsplit: int = 0, shmem: int = 0, anon: int = 0) -> Zombie:
    pages = Pages(0, None, None, 0, 0) if unsplit else Pages(0, shmem, anon, 0, 0)
    return Zombie(
        number,
        number,
        b"/p/%d" % number,
        2,
        b"/p",
        None,
        None,
        References(1, None, 0, 0, None),
        pages,
        (),
        0,
        0,
        1,
        unsplit,
    )


def _split(*zombies: Zombie, shmem: int, anon: int, doubt: bool = False) -> Walk:
    residuals = Residuals(
        {b"/p": MemoryUse(0, shmem * PAGE, anon * PAGE, None, 0)}, frozenset({b"/p"} if doubt else ())
    )
    return split_by_residual(Walk(Tier.BPF, zombies, 2, GAPS), residuals)


def _told(walk: Walk) -> list[tuple[int | None, int | None, int]]:
    return [(zombie.pages.shmem, zombie.pages.anon, zombie.unsplit_pages) for zombie in walk.zombies]


def test_where_the_parent_has_one_kind_all_are_of_it() -> None:
    told = _split(_zombie(1, 9000), _zombie(2, 500), _zombie(3, shmem=4), shmem=9504, anon=0)
    assert _told(told) == [(9000, 0, 0), (500, 0, 0), (4, 0, 0)]
    assert told.gaps == ()
    assert _told(_split(_zombie(1, 9000), shmem=0, anon=9000)) == [(0, 9000, 0)]


def test_one_in_question_gets_what_its_siblings_do_not_explain() -> None:
    told = _split(_zombie(1, 9000), _zombie(2, shmem=5, anon=7), shmem=6005, anon=3007)
    assert _told(told) == [(6000, 3000, 0), (5, 7, 0)]


def test_what_does_not_add_up_stays_untold_and_is_counted() -> None:
    for walk in (
        _split(_zombie(1, 9000), shmem=9001, anon=0),
        _split(_zombie(1, 9000), _zombie(2, 9000), shmem=9000, anon=9000),
        _split(_zombie(1, 9000), shmem=9000, anon=0, doubt=True),
        _split(_zombie(1, 9000), _zombie(2, shmem=9001), shmem=9000, anon=9001),
    ):
        assert walk.zombies[0].pages.shmem is None
        assert pages_of(walk.zombies[0]) == 9000
        assert walk.gaps == GAPS


def test_a_parent_without_any_figure_tells_nothing() -> None:
    walk = Walk(Tier.BPF, (_zombie(1, 9000),), 2, GAPS)
    assert split_by_residual(walk, Residuals({}, frozenset())) == walk
