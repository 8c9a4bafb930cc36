# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

from tests.unit.kernel.raw_records import FILE, HIDDEN, SHARED, live, memcg, pin, walk

from zombiescope.facts.zombies import Pages, Pin, PinKind, References, Tier, Walk, Zombie
from zombiescope.kernel.assemble import assemble
from zombiescope.kernel.mount_paths import Mount, MountPaths, parse_mounts
from zombiescope.kernel.raw import CSS_DYING, CSS_ONLINE, PinFlag, RawMemcg, RawPin

_MOUNTS = MountPaths([Mount("254:0", b"/", b"/"), Mount("0:30", b"/", b"/dev/shm")])
_DISK, _SHM = 254 << 20, 30


def assembled(*memcgs: RawMemcg, writeback: tuple[RawPin, ...] = ()) -> Walk:
    return assemble(walk(*memcgs, writeback=writeback), _MOUNTS, Tier.BPF)


def only(zombie: RawMemcg, writeback: tuple[RawPin, ...] = ()) -> Zombie:
    (found,) = assembled(live(1, 0, b""), zombie, writeback=writeback).zombies
    return found


def facts(walked: Walk) -> set[str]:
    return {gap.fact for gap in walked.gaps}


def test_former_paths_and_nearest_live_ancestors() -> None:
    walked = assembled(
        live(1, 0, b""),
        live(2, 1, b"a\nb"),
        memcg(css=3, parent=2, serial=3, id=33, name=b"dead\xff", refs=1),
        memcg(css=4, parent=3, serial=4, id=44, name=b"child", level=3),
    )
    upper, lower = walked.zombies
    assert (upper.path, upper.parent, upper.id) == (b"/a\nb/dead\xff", b"/a\nb", 33)
    assert (lower.path, lower.parent, lower.level) == (b"/a\nb/dead\xff/child", b"/a\nb", 3)
    assert (upper.parent_id, lower.parent_id) == (2, 33)
    assert upper.references == References(total=1, lru_folios=0, children=1, swap=0, rest=0)
    assert [pin.kind for pin in upper.pins] == [PinKind.CHILD]
    assert (walked.live_count, walked.chunks, walked.kernel_nanoseconds, walked.longest_run_nanoseconds) == (
        2,
        2,
        14,
        9,
    )
    assert walked.count_by_parent() == {b"/a\nb": 2}


def test_a_file_is_named_where_it_can_be_opened() -> None:
    file = pin(flags=FILE, device=_DISK, inode=7, names=b"bash\0bin\0usr\0", fstype=b"ext4", pages=5, mapped=2, dirty=1)
    zombie = only(memcg(css=2, parent=1, refs=2, folios=2, lru_file=5, file=5, pins=(file,)))
    assert zombie.pages == Pages(file=5, shmem=0, anon=0, unevictable=0, swap=0)
    assert zombie.references == References(total=2, lru_folios=2, children=0, swap=0, rest=0)
    (named,) = zombie.pins
    path = b"/usr/bin/bash"
    assert named == Pin(PinKind.PAGE_CACHE, path, path, "ext4", "254:0", 7, 5, sampled=False, mapped=2, dirty=1)


def test_an_unlinked_file_keeps_its_name_but_has_no_path() -> None:
    file = pin(flags=SHARED | PinFlag.UNHASHED, device=_SHM, names=b"x\0", fstype=b"tmpfs")
    (named,) = only(memcg(css=2, parent=1, folios=1, lru_anon=1, shmem=1, pins=(file,))).pins
    assert (named.kind, named.path, named.path_in_fs) == (PinKind.TMPFS, None, b"/x")


def test_of_a_file_with_several_names_only_one_that_leads_to_it_is_shown(tmp_path: Path) -> None:
    real, other = tmp_path / "real", tmp_path / "other"
    real.write_bytes(b"x")
    other.write_bytes(b"y")
    os.link(real, tmp_path / "twin")
    seen = real.stat()
    device = f"{os.major(seen.st_dev)}:{os.minor(seen.st_dev)}"
    mounts = MountPaths([Mount(device, b"/", b"/"), Mount("0:99", b"/", b"/" + os.fsencode(tmp_path.name))])
    names = {name: _named(tmp_path / name, seen) for name in ("real", "twin", "other", "gone")}
    zombies = [
        memcg(css=9 + i, parent=1, serial=9 + i, folios=1, lru_file=1, pins=(names[name],))
        for i, name in enumerate(names)
    ]
    walked = assemble(walk(live(1, 0, b""), *zombies), mounts, Tier.BPF)
    shown = dict(zip(names, [zombie.pins[0].path for zombie in walked.zombies], strict=True))
    here = os.fsencode(tmp_path)
    assert shown == {"real": here + b"/real", "twin": here + b"/twin", "other": None, "gone": None}
    assert all(zombie.pins[0].path_in_fs and zombie.pins[0].inode == seen.st_ino for zombie in walked.zombies)


def _named(path: Path, seen: os.stat_result) -> RawPin:
    names = b"".join(part + b"\0" for part in reversed(os.fsencode(path).split(b"/")[1:]))
    device = os.major(seen.st_dev) << 20 | os.minor(seen.st_dev)
    return pin(flags=FILE, device=device, inode=seen.st_ino, nlink=2, names=names, fstype=b"ext4")


def test_one_that_is_only_being_taken_offline_is_pinned_neither_by_swap_nor_by_anything_unknown() -> None:
    flags = CSS_DYING | CSS_ONLINE
    empty = only(memcg(css=2, parent=1, flags=flags, refs=1, swap=1, walked=1))
    assert (empty.pins, empty.references) == ((), References(total=0, lru_folios=0, children=0, swap=0, rest=0))
    swapped = only(memcg(css=2, parent=1, flags=flags, refs=2, swap=4, walked=1))
    assert [(pin.kind, pin.pages) for pin in swapped.pins] == [(PinKind.SWAP, 3)]


def test_kinds_of_shared_memory() -> None:
    names = {
        b"memfd:x": PinKind.MEMFD,
        b"dev/zero": PinKind.SHARED_ANON,
        b"SYSV0000abcd": PinKind.SYSV_SHM,
        b"odd": PinKind.OTHER,
    }
    for name, kind in names.items():
        hidden = pin(flags=HIDDEN, device=1, names=name + b"\0", fstype=b"tmpfs")
        (named,) = only(memcg(css=2, parent=1, folios=1, lru_anon=1, shmem=1, pins=(hidden,))).pins
        assert (named.kind, named.path, named.path_in_fs) == (kind, None, b"/" + name)
        visible = pin(flags=SHARED, device=_SHM, names=name + b"\0", fstype=b"tmpfs")
        (named,) = only(memcg(css=2, parent=1, folios=1, lru_anon=1, shmem=1, pins=(visible,))).pins
        assert named.kind is PinKind.TMPFS


def test_pins_of_one_file_are_added_up_and_a_partial_look_says_so() -> None:
    first = pin(mapping=1, flags=FILE, device=_DISK, names=b"a\0", pages=2)
    other = pin(mapping=2, flags=FILE, device=_DISK, names=b"b\0", pages=1)
    zombie = only(memcg(css=2, parent=1, walked=0, lru_file=100, pins=(first, other, first)))
    assert [(named.path, named.pages, named.sampled) for named in zombie.pins] == [(b"/a", 4, True), (b"/b", 1, True)]


def test_block_devices_own_cache_is_named_by_its_device() -> None:
    cache = pin(flags=int(PinFlag.INODE), device=99, rdevice=_DISK, fstype=b"bdev")
    (named,) = only(memcg(css=2, parent=1, folios=1, lru_file=1, file=1, pins=(cache,))).pins
    assert (named.kind, named.device, named.path, named.fstype) == (PinKind.PAGE_CACHE, "254:0", None, "bdev")
    assert (named.path_in_fs or b"").startswith(b"/dev/"), (
        "by its name, else by its number; never as the root of a file system"
    )


def test_a_host_mounted_elsewhere_has_the_hosts_own_paths() -> None:
    """With hostPath `/` at /host a file was called /host/..., which nobody finds on the node."""
    table = b"1 0 254:0 / / rw - overlay o rw\n"
    table += b"2 1 8:1 / /host rw - ext4 /dev/sda1 rw\n3 2 8:2 /deep /host/data rw - ext4 /dev/sdb rw\n"
    paths = MountPaths(parse_mounts(table), b"/host")
    assert paths.folder("8:1", b"/var/lib/kubelet") == b"/var/lib/kubelet"
    assert paths.folder("8:2", b"/deep/x") == b"/data/x"
    assert paths.folder("254:0", b"/etc") is None, "what is the container's own is nothing of the host's"
    assert paths.folder("8:1", b"/data/hidden") is None
    assert MountPaths(parse_mounts(table)).folder("8:1", b"/var") == b"/host/var"


def test_pins_that_are_no_folios() -> None:
    zombie = only(memcg(css=2, parent=1, refs=6, swap=7, unevictable=3, tcp=1, lru_anon=0))
    kinds = {named.kind: named.pages for named in zombie.pins}
    assert kinds == {PinKind.UNEVICTABLE: 3, PinKind.SWAP: 7}
    assert zombie.references.rest is None
    sockets = only(memcg(css=2, parent=1, refs=3, tcp=2))
    assert [named.kind for named in sockets.pins] == [PinKind.SOCKET]
    unknown = only(memcg(css=2, parent=1, refs=3))
    assert [named.kind for named in unknown.pins] == [PinKind.OTHER]


def test_shared_memory_in_the_swap_cache_is_swap_and_a_folio_of_no_file_elsewhere_is_unknown() -> None:
    bare = pin(flags=int(PinFlag.BARE), pages=2, folios=2)
    cached = only(memcg(css=2, parent=1, refs=3, swap=5, lru_anon=2, bare=2, folios=2, pins=(bare,)))
    assert [(each.kind, each.pages, each.mapped) for each in cached.pins] == [
        (PinKind.SWAP, 2, 0),
        (PinKind.SWAP, 5, None),
    ]
    assert cached.pages == Pages(file=0, shmem=0, anon=0, unevictable=0, swap=5)
    assert cached.references == References(3, 2, 0, 1, 0)
    for unlike in ({"swap": 1}, {"swap": 0}, {"swap": -1}, {"lru_anon": 0, "lru_file": 2}, {"lru_anon": 3, "anon": 2}):
        other = only(memcg(**{"css": 2, "parent": 1, "swap": 5, "lru_anon": 2, "bare": 2, "pins": (bare,)} | unlike))
        assert other.pins[0].kind is PinKind.OTHER


def test_writeback_structures_hold_files_but_no_pages() -> None:
    held = pin(css=2, flags=FILE | PinFlag.WRITEBACK, device=_DISK, inode=9, names=b"log\0var\0", fstype=b"ext4")
    zombie = only(memcg(css=2, parent=1, refs=1), writeback=(held,))
    assert [(named.kind, named.path, named.pages) for named in zombie.pins][-1] == (
        PinKind.WRITEBACK,
        b"/var/log",
        None,
    )


def test_what_is_unknown_is_a_gap_and_never_zero() -> None:
    walked = assembled(live(1, 0, b""), memcg(css=2, parent=1, refs=-1, swap=-1, walked=0, lru_anon=9, lru_file=4))
    (zombie,) = walked.zombies
    assert zombie.pages == Pages(file=4, shmem=None, anon=None, unevictable=0, swap=None)
    assert zombie.references == References(None, None, 0, None, None)
    assert zombie.born_at is None
    expected = {
        "zombies[].died_at",
        "zombies[].born_at",
        "zombies[].pins",
        "zombies[].pages.shmem",
        "zombies[].pages.anon",
        "zombies[].refs",
    }
    assert facts(walked) == expected


def test_a_host_without_zombies_has_no_gaps() -> None:
    walked = assembled(live(1, 0, b""), live(2, 1, b"a"))
    assert (walked.zombies, walked.gaps, walked.live_count) == ((), (), 2)


def test_a_cgroup_without_its_parent_is_kept_and_said() -> None:
    walked = assembled(live(1, 0, b""), memcg(css=3, parent=99, name=b"lost"))
    assert walked.zombies[0].path == b"/lost"
    assert "zombies[].path" in facts(walked)


def test_references_that_do_not_add_up_are_not_explained_away() -> None:
    zombie = only(memcg(css=2, parent=1, refs=1, folios=3, lru_file=3, file=3))
    assert zombie.references.rest is None
