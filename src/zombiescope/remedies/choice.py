# SPDX-License-Identifier: Apache-2.0
"""For every zombie the levers that free it, least harm first, and what a set of pulled levers frees; what a recipe is given, and
what it gives back: a draft of a step, before it has a number and an expectation.

A zombie goes when each of its pins is removed by some lever. Where one pin needs its parent reclaimed, its other cached
files need no lever of their own.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from zombiescope.analysis.autopsy import Body, pages_of
from zombiescope.analysis.freeing import actions_on, is_in_swap_cache
from zombiescope.analysis.maker import pod_uid_of, unit_maker
from zombiescope.diagnosis.audit import Audit, UnitAudit
from zombiescope.facts.cgroups import PAGE_BYTES_UNTOLD
from zombiescope.facts.names import raw
from zombiescope.facts.pods import PodsSeen
from zombiescope.facts.reaping import Levers
from zombiescope.facts.remedies import LEVERS, Remedy
from zombiescope.facts.units import ServiceLoop
from zombiescope.facts.zombies import OWN_NUMBERS, Pin, PinKind
from zombiescope.remedies.plan import Change, Expected, Risk, Undo

_HARM = {action: number for number, action in enumerate(LEVERS)}
_UNSURE_ALLOWED = 0.1


class Lever(NamedTuple):
    """One thing that can be done, to one target."""

    action: Remedy
    target: bytes = b""
    inode: int | None = None
    device: str | None = None
    """`major:minor`, of a file; None where stat(2) tells another one."""
    process: int | None = None
    """Whose end it is, where a process holds."""


class HeldZombie(NamedTuple):
    """One zombie: for each pin the levers that remove it, and whether that is certain."""

    body: Body
    pins: tuple[frozenset[Lever], ...]
    chosen: frozenset[Lever]


class ChosenLevers(NamedTuple):
    held: tuple[HeldZombie, ...]
    wanted: Counter[Lever]
    """Zombies that need a lever."""
    pages: Counter[Lever]

    def of(self, action: Remedy) -> list[Lever]:
        """Most zombies first."""
        return [lever for lever, _ in self.wanted.most_common() if lever.action is action]

    def in_swap_cache(self, lever: Lever) -> int:
        """Of the zombies that need a lever those whose pages are in swap and still in memory, too."""
        needing = (held.body.pins for held in self.held if lever in held.chosen)
        return sum(any(is_in_swap_cache(pin) for pin in pins) for pins in needing)


def choose(bodies: Iterable[Body]) -> ChosenLevers:
    known: dict[tuple[Pin, bytes], frozenset[Lever]] = {}
    held, wanted, pages = [], Counter[Lever](), Counter[Lever]()
    for body in bodies:
        parent = body.zombie.parent
        pins = []
        for pin in body.pins:
            levers = known.get((pin, parent))
            if levers is None:
                levers = frozenset(_lever(action, pin, parent) for action in actions_on(pin))
                known[pin, parent] = levers
            pins.append(levers)
        chosen = _least_harm(pins)
        held.append(HeldZombie(body, tuple(pins), chosen))
        for lever in sorted(chosen, key=least_harm_first):  # a set has another order in every run
            wanted[lever] += 1
            pages[lever] += pages_of(body.zombie)
    return ChosenLevers(tuple(held), wanted, pages)


def _lever(action: Remedy, pin: Pin, parent: bytes) -> Lever:
    if action in (Remedy.FLUSH, Remedy.SWAP_IN, Remedy.REBOOT, Remedy.WAIT):
        return Lever(action)
    if action is Remedy.RECLAIM_PARENT:
        return Lever(action, parent)
    if action is Remedy.REMOVE_SEGMENT:
        return Lever(action, b"", pin.inode)
    if action in (Remedy.DROP_FILE, Remedy.DELETE_FILE) and pin.path is not None:
        return Lever(action, pin.path, pin.inode, None if pin.fstype in OWN_NUMBERS else pin.device)
    if pin.holder is not None:
        return Lever(action, raw(pin.holder.said), process=pin.holder.process)
    return Lever(action, pin.name if pin.name is not None else raw(f"the holder of its {pin.kind} memory"))


def least_harm_first(lever: Lever) -> tuple[int, bytes, int]:
    return _HARM[lever.action], lever.target, lever.inode or 0


def may_be_deleted(path: bytes) -> bool:
    """What programs keep below /run is theirs: a person decides."""
    return not path.startswith((b"/run/", b"/sys/", b"/proc/", b"/dev/pts/"))


def _least_harm(pins: Sequence[frozenset[Lever]]) -> frozenset[Lever]:
    chosen = {min(levers, key=least_harm_first) for levers in pins if levers}
    if any(lever.action is Remedy.RECLAIM_PARENT for lever in chosen):
        chosen = {lever for lever in chosen if lever.action is not Remedy.DROP_FILE}
    return frozenset(chosen)


def is_certain(pin: Pin, attached: int) -> bool:
    """Clean unmapped page cache, tmpfs files and segments nobody has attached go when asked; of others nobody can promise it."""
    match pin.kind:
        case PinKind.PAGE_CACHE:
            return not (pin.mapped or pin.dirty or pin.sampled)
        case PinKind.TMPFS:
            return not pin.mapped and pin.holder is None
        case PinKind.SYSV_SHM:
            return attached == 0
        case _:
            return False


_OF_A_POD = re.compile(rb"/pods/([0-9a-f-]{32,36})/(?:volumes/(kubernetes\.io~[^/]+)/)?")
_LOGS_OF_A_POD = re.compile(rb"/pods/[^/]+_([0-9a-f-]{32,36})/[^/]+/[0-9]+\.log")
_KEPT_VOLUMES = (b"empty-dir", b"secret", b"projected", b"configmap", b"downward-api")
"""Those that end with their pod; any other may be somebody's data, and stays."""


def goes_with_pods(name: bytes, uids: frozenset[str]) -> bool:
    """Of a file, whether kubelet removes it when it removes the pod: an emptyDir's, a log."""
    log = _LOGS_OF_A_POD.search(name)
    if log:
        return log[1].decode() in uids
    found = _OF_A_POD.search(name)
    if found is None or found[1].decode() not in uids:
        return False
    return found[2] is None or found[2].removeprefix(b"kubernetes.io~") in _KEPT_VOLUMES


_LAYER = re.compile(rb"(.*/(?:snapshots/[0-9]+|overlay2?/[0-9a-z]+))/(?:fs|diff)/", re.DOTALL)


def layer_of(pin: Pin) -> bytes | None:
    """The folder of a layer, an image's or a container's own, as containerd, Docker, CRI-O and podman lay them out."""
    found = _LAYER.match(pin.name or b"")
    return found[1] if found else None


def is_of_disk(pin: Pin) -> bool:
    """A block device's own page: what a file system keeps about its files."""
    return pin.fstype == "bdev"


_GOES, _STAYS, _OF_DISK, _PERHAPS = "goes", "stays", "of disk", "perhaps"
"""What becomes of a pin when its pods end."""
_UNSEEN_LAYERS = (
    "layers hold some of them, and which are of containers, that go, and which of images cannot be seen from here"
)


class Reckoning:
    """Pulls levers one set after the other and says what each set frees."""

    def __init__(self, choices: ChosenLevers, levers: Levers, page_bytes: int) -> None:
        self._left = list(choices.held)
        self._pulled: set[Lever] = set()
        self._attached, self._page_bytes = levers.segments, page_bytes
        self._layers, self._volumes = levers.layers, levers.volumes

    @property
    def left(self) -> int:
        return len(self._left)

    def pull(self, levers: Iterable[Lever]) -> Expected:
        self._pulled |= set(levers)
        going = self._going(self._pulled)
        gone = {id(held) for held in going}
        self._left = [held for held in self._left if id(held) not in gone]
        return self._reckoned(going)

    def would_free(self, levers: Iterable[Lever]) -> Expected:
        """The same, and nothing is pulled."""
        return self._reckoned(self._going(self._pulled | set(levers)))

    def goes_with(self, pods: frozenset[str]) -> Expected:
        """What the end of these pods frees: whose every pin is a file that goes with them. Nothing is pulled. A page of the disk's
        own about such a file outlives it (ext4 forgets a freed block, and its page stays in the cache until reclaim takes it): who
        has one beside stays, and how many those are is said."""
        fates = [(held, {self._fate(held.body, pin, pods) for pin in held.body.pins}) for held in self._left]
        theirs = [(held, fates) for held, fates in fates if fates & {_GOES, _PERHAPS} and _STAYS not in fates]
        going = [held for held, fates in theirs if fates == {_GOES}]
        unsure = sum(_OF_DISK not in fates for _, fates in theirs) - len(going)
        sure = [held for held in going if not any(pin.sampled for pin in held.body.pins)]
        up_to = len(going) + unsure
        if len(going) - len(sure) > _UNSURE_ALLOWED * len(going):
            why = "more files hold them than were looked at one by one, and not all may go with the pods"
            return Expected(None, None, up_to, why)
        if unsure > max(_UNSURE_ALLOWED * up_to, 1):
            return Expected(None, None, up_to, _UNSEEN_LAYERS)
        pages = sum(pages_of(held.body.zombie) for held in sure)
        stay = len(theirs) - up_to
        more = " more" if up_to else ""
        beside = [f"{stay:,}{more} stay until reclaim takes the disk's own pages about those files"] if stay else []
        beside += [f"{unsure:,} more may go, held by layers that cannot be seen from here"] if unsure else []
        if not theirs:
            has_some = any(pod_uid_of(held.body.zombie.path) in pods for held in self._left)
            beside = ["what holds theirs stays when the pods end" if has_some else "no zombie of these pods was seen"]
        return Expected(len(sure), pages * self._page_bytes, up_to, "; ".join(beside))

    def _fate(self, body: Body, pin: Pin, pods: frozenset[str]) -> str:
        """Whoever wrote from a pod into a container's own layer wrote into that pod's: no other container sees it."""
        if is_of_disk(pin):
            return _OF_DISK
        beside = self._volumes.get(pin.device or "") if pin.path is None else None
        if goes_with_pods((beside or b"") + (pin.name or b""), pods):
            return _GOES
        layer = layer_of(pin) if pod_uid_of(body.zombie.path) in pods else None
        if layer is None:
            return _STAYS
        is_own = self._layers.get(layer)
        return _PERHAPS if is_own is None else _GOES if is_own else _STAYS

    def _going(self, pulled: set[Lever]) -> list[HeldZombie]:
        return [held for held in self._left if held.pins and not any(each.isdisjoint(pulled) for each in held.pins)]

    def _reckoned(self, going: list[HeldZombie]) -> Expected:
        attached = self._attached
        sure = sum(all(is_certain(pin, attached.get(pin.inode or 0, 0)) for pin in held.body.pins) for held in going)
        if len(going) - sure > _UNSURE_ALLOWED * len(going):
            why = "how much mapped, dirty, swapped, attached or only sampled memory will go cannot be predicted"
            return Expected(None, None, len(going), why)
        pages = sum(pages_of(held.body.zombie) for held in going)
        return Expected(sure, pages * self._page_bytes, len(going))


class Activity(NamedTuple):
    """What is still going on: who makes zombies now, and since when we look."""

    makers: tuple[str, ...] = ()
    """Known to have made zombies, beside the units that loop now."""
    growing: tuple[tuple[str, str | None], ...] = ()
    """Makers that were seen to leave more, most first, each with the timer that starts it."""
    looping: tuple[str, ...] = ()
    """Makers whose units were seen to loop and have left zombies, most first."""
    pods: PodsSeen | None = None
    """Pods of this node, and which of them loop; None where there are none."""
    since: float | None = None
    """When the window began, in seconds since the epoch: what holds a zombie born since is still in use."""


AT_REST = Activity()


class Situation(NamedTuple):
    present: frozenset[str]
    """Ids of the findings that are there."""
    choices: ChosenLevers
    """Nothing in it where the zombies could not be seen one by one, or are too few to bother."""
    audit: Audit | None
    levers: Levers
    activity: Activity = AT_REST
    left: Mapping[str, int] = {}
    """Zombies of all makers, also of those the plan is not about."""
    still_written: frozenset[bytes] = frozenset()
    """Files that a process has open or mapped, or that hold a zombie born while we looked: they may be written now."""
    page_bytes: int = PAGE_BYTES_UNTOLD

    @property
    def loops(self) -> list[ServiceLoop]:
        """What loops now: who leaves most first, whoever shouts louder."""
        loops = self.audit.loops if self.audit else ()
        growing = {maker for maker, _ in self.activity.growing}
        services = [loop for loop in loops if loop.kind != "pod"]  # a cluster's are its own: `activity.pods`
        return sorted(services, key=lambda loop: (unit_maker(loop.name) not in growing, -self.left_by(loop)))

    def left_by(self, loop: ServiceLoop) -> int:
        unit = self.unit(loop.name)
        return self.left.get(unit_maker(loop.name), (unit.zombies if unit else None) or 0)

    def unit(self, name: str) -> UnitAudit | None:
        units = self.audit.units if self.audit else ()
        return next((unit for unit in units if unit.name == name), None)


class Draft(NamedTuple):
    name: str
    title: str
    change: Change
    why: str
    finding: str
    check: str
    risk: Risk
    undo: Undo
    needs_consent: bool = False
    pulls: frozenset[Lever] = frozenset()
    """The levers of zombies that this step pulls."""
    maker: str = ""
    """Whom it is against."""
    instead_of: tuple[str, ...] = ()
    """Names of drafts that free the same zombies at a higher price."""
    pods: frozenset[str] = frozenset()
    """Uids of pods that end with it, and their files with them."""
