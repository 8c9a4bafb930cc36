# SPDX-License-Identifier: Apache-2.0
"""Records as plain JSON and back, by their declared types: named tuples as lists, bytes as text, enums as their values.

Where a field may be one of several records, the record's name stands beside it. What comes back is checked: a value that the
declared type does not allow raises ValueError, whoever wrote it. A record that was once kept as something else has an `of_older`.
What an experiment told (`Host.experiment`) is kept with the names of the outermost record's fields, or as a gap.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from zombiescope.facts.gap import Gap

_Record = TypeVar("_Record")
Clean = Callable[[bytes], bytes]
_SCALARS = (bool, int, float, str)


def to_plain(value: Any, kind: Any, clean: Clean = lambda text: text) -> Any:
    """`clean` is shown every name (bytes, and text that is no enum) and gives what may be kept of it."""
    if value is None:
        return None
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        if len(_choices(kind)) == 1:
            return to_plain(value, _choices(kind)[0], clean)
        return {type(value).__name__: to_plain(value, type(value), clean)}
    if origin is tuple:
        return [to_plain(entry, inner, clean) for entry, inner in zip(value, _of_each(kind, len(value)), strict=True)]
    if origin in (frozenset, set):
        return [to_plain(entry, get_args(kind)[0], clean) for entry in sorted(value)]
    if origin is not None and issubclass(origin, Mapping):
        of_key, of_value = get_args(kind)
        pairs = [[to_plain(key, of_key, clean), to_plain(entry, of_value, clean)] for key, entry in value.items()]
        return dict(pairs) if of_key is str else pairs
    if hasattr(kind, "_fields"):
        return [to_plain(entry, inner, clean) for entry, inner in zip(value, fields_of(kind), strict=True)]
    return _scalar_to_plain(value, kind, clean)


def _scalar_to_plain(value: Any, kind: Any, clean: Clean) -> Any:
    if kind is bytes:
        return _text(clean(value))
    if issubclass(kind, StrEnum):
        return str(value)
    return _text(clean(_bytes(value))) if kind is str else value


def of_plain(value: Any, kind: Any) -> Any:
    """The record again; ValueError where it is none."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _union_of_plain(value, kind)
    if value is None:
        raise ValueError(f"nothing in the place of {_called(kind)}")
    if origin in (tuple, frozenset, set):
        return _many_of_plain(_list(value, kind), kind, origin)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_of_plain(value, kind)
    if hasattr(kind, "_fields"):
        inner = fields_of(kind)
        # What was kept before a field was added, at the end and with a default, can still be read.
        fitting = range(len(inner) - len(kind._field_defaults), len(inner) + 1)
        if hasattr(kind, "of_older") and not (isinstance(value, list) and len(value) in fitting):
            try:
                return kind.of_older(value)
            except TypeError as error:
                raise ValueError(f"{type(value).__name__} in the place of {_called(kind)}") from error
        if len(_list(value, kind)) not in fitting:
            raise ValueError(f"a {kind.__name__} has {len(inner)} fields, not {len(value)}")
        return kind(*[of_plain(entry, of) for entry, of in zip(value, inner, strict=False)])
    return _scalar_of_plain(value, kind)


def _scalar_of_plain(value: Any, kind: Any) -> Any:
    if kind is bytes:
        if not isinstance(value, str):
            raise ValueError("a name that is no text")
        return _bytes(value)
    if issubclass(kind, StrEnum):
        return kind(value)
    if kind is float and type(value) is int:
        return float(value)
    if kind not in _SCALARS or type(value) is not kind:
        raise ValueError(f"{type(value).__name__} in the place of {_called(kind)}")
    return value


def _union_of_plain(value: Any, kind: Any) -> Any:
    choices = _choices(kind)
    if value is None:
        if NoneType in get_args(kind):
            return None
        raise ValueError(f"nothing in the place of {_called(kind)}")
    if len(choices) == 1:
        return of_plain(value, choices[0])
    named = {choice.__name__: choice for choice in choices}
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in named:
        raise ValueError(f"none of {', '.join(named)}")
    ((name, inner),) = value.items()
    return of_plain(inner, named[name])


def _many_of_plain(value: list[Any], kind: Any, origin: Any) -> Any:
    if origin is tuple:
        return tuple([of_plain(entry, inner) for entry, inner in zip(value, _of_each(kind, len(value)), strict=True)])
    return frozenset(of_plain(entry, get_args(kind)[0]) for entry in value)


def _mapping_of_plain(value: Any, kind: Any) -> dict[Any, Any]:
    """An object where keys are text, or pairs."""
    of_key, of_value = get_args(kind)
    pairs = list(map(list, value.items())) if of_key is str and isinstance(value, dict) else _list(value, kind)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError(f"no pairs in the place of {_called(kind)}")
    return {of_plain(key, of_key): of_plain(entry, of_value) for key, entry in pairs}


def to_outcome(record: Any) -> dict[str, Any]:
    """What an experiment found, a named tuple or a gap, as a recording keeps it."""
    if isinstance(record, Gap):
        return {"gap": list(record)}
    declared: Any = type(record)
    each = zip(record._fields, record, fields_of(declared), strict=True)
    return {name: to_plain(value, kind) for name, value, kind in each}


def of_outcome(outcome: Any, kind: type[_Record], garbled: Gap) -> _Record | Gap:
    """The record of `to_outcome` again, or the gap that was kept; `garbled` where it is neither."""
    declared: Any = kind
    kinds = dict(zip(declared._fields, fields_of(declared), strict=True))

    def made(kept: dict[str, Any]) -> _Record:
        needed = [name for name in declared._fields if name not in declared._field_defaults or name in kept]
        return kind(**{name: of_plain(kept[name], kinds[name]) for name in needed})

    return made_of_outcome(outcome, made, garbled)


def made_of_outcome(outcome: Any, made: Callable[[dict[str, Any]], _Record], garbled: Gap) -> _Record | Gap:
    """What `made` makes of it, or the gap that was kept; `garbled` where it is neither: a recording comes from a stranger."""
    try:
        return Gap(*map(str, outcome["gap"])) if "gap" in outcome else made(outcome)
    except (KeyError, TypeError, ValueError, AttributeError):
        return garbled


def _list(value: Any, kind: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{type(value).__name__} in the place of {_called(kind)}")  # noqa: TRY004 (as for any other damage)
    return value


def _of_each(kind: Any, count: int) -> list[Any]:
    inner = get_args(kind)
    return [inner[0]] * count if inner[-1] is Ellipsis else list(inner)


@cache
def _choices(kind: Any) -> tuple[Any, ...]:
    return tuple(choice for choice in get_args(kind) if choice is not NoneType)


@cache
def fields_of(kind: Any) -> tuple[Any, ...]:
    hints = get_type_hints(kind)
    return tuple(hints[name] for name in kind._fields)


def _called(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
