# SPDX-License-Identifier: Apache-2.0
"""From the zombies one by one to what rules ask: by maker, by kind of pin, by what would free them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from zombiescope.analysis.autopsy import Body
from zombiescope.analysis.freeing import least_harm_first
from zombiescope.facts.names import shown
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.zombies import MakerRemains, Pin, PinExample, PinKind, Remains

_MOST_MAKERS = 50
_MOST_PARENTS = 5
_EXAMPLES_A_KIND = 3
_MOST_PLACES = 500


def derive_remains(bodies: tuple[Body, ...], tier: str, at: float, since: float | None = None) -> Remains:
    """`since`: when the window began."""
    heaps: dict[str, list[Body]] = {}
    for body in bodies:
        heaps.setdefault(body.maker, []).append(body)
    ranked = sorted(heaps.items(), key=lambda each: (-len(each[1]), each[0]))
    makers = tuple(_of_maker(maker, heap) for maker, heap in ranked[:_MOST_MAKERS])
    by_pin, actions = _pins_of(bodies), _actions_of(bodies)
    parents = Counter(shown(body.zombie.parent) for body in bodies).most_common(_MOST_PLACES)
    return Remains(
        at, tier, len(bodies), makers, by_pin, actions, _examples_of(bodies), dict(parents), _lately(bodies, since)
    )


def _lately(bodies: Iterable[Body], since: float | None) -> dict[str, int]:
    if since is None:
        return {}
    born = (body.maker for body in bodies if body.zombie.born_at is not None and body.zombie.born_at >= since)
    return dict(Counter(born).most_common(_MOST_MAKERS))


def _of_maker(maker: str, heap: list[Body]) -> MakerRemains:
    births = [body.zombie.born_at for body in heap if body.zombie.born_at is not None]
    parents = Counter(shown(body.zombie.parent) for body in heap).most_common(_MOST_PARENTS)
    return MakerRemains(
        maker,
        len(heap),
        _pins_of(heap),
        min(births, default=None),
        max(births, default=None),
        dict(parents),
    )


def _pins_of(bodies: Iterable[Body]) -> dict[str, int]:
    """Of a zombie that only waits for its dead child, the child's pins: the child itself is no reason."""
    kinds: Counter[str] = Counter()
    for body in bodies:
        kinds.update({pin.kind.value for pin in body.pins if pin.kind is not PinKind.CHILD} or _without_page(body))
    return dict(kinds.most_common())


def _without_page(body: Body) -> set[str]:
    return {PinKind.CHILD.value} if body.pins else {PinKind.OTHER.value}


def _actions_of(bodies: Iterable[Body]) -> dict[str, dict[str, int]]:
    """The first remedy of each zombie, under each kind that it has."""
    found: dict[str, Counter[Remedy]] = {}
    for body in bodies:
        kinds = {pin.kind.value for pin in body.pins}
        for kind in kinds:
            found.setdefault(kind, Counter())[body.remedies[0].action] += 1
    return {kind: {action.key: n for action, n in least_harm_first(each).items()} for kind, each in found.items()}


def _examples_of(bodies: Iterable[Body]) -> tuple[PinExample, ...]:
    found: dict[str, list[PinExample]] = {}
    for body in bodies:
        for pin in body.pins:
            kept = found.setdefault(pin.kind.value, [])
            name = _name_of(pin)
            if len(kept) < _EXAMPLES_A_KIND and name and name not in {each.name for each in kept}:
                kept.append(PinExample(pin.kind.value, body.maker, name))
    return tuple(example for kind in sorted(found) for example in found[kind])


def _name_of(pin: Pin) -> str:
    if pin.kind is PinKind.SYSV_SHM:
        return f"shmid {pin.inode}"
    name = pin.path if pin.path is not None else pin.path_in_fs
    return shown(name) if name is not None else (pin.holder.said if pin.holder else "")
