"""Frozen dataclasses <-> plain JSON data, typed in every field.

    to_json(TensorInfo("x", 1, 3, "real"))    # {"name": "x", "count": 1, "level": 3, "kind": "real"}

A field that holds one of several dataclasses says which by the class's `tag`, written as "kind":

    nodes: Mapping[str, AttentionCalibration | NormCalibration]    # {"layer0.norm1": {"kind": "norm", ...}}
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tacita.omitted import AT_DEFAULT, omitted

NOT_STORED = {"stored": False}
LEAVES = frozenset((str, int, float, bool))


def canonical(data: Any) -> bytes:
    """JSON bytes with one spelling: keys sorted, no spaces, NaN refused."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def to_json(value: Any) -> Any:
    """Frozen dataclasses, tuples and mappings -> plain JSON data."""
    if type(value) in LEAVES:  # nearly every value of a plan: the slow questions below are not asked of it
        return value
    if dataclasses.is_dataclass(value):
        tag = getattr(type(value), "tag", None)
        fields = _stored(typing.cast(type, type(value)))
        kept = {field.name: getattr(value, field.name) for field in fields}
        named = {f.name: to_json(kept[f.name]) for f in fields if not omitted(f, kept[f.name])}
        return {"kind": tag, **named} if tag else named
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def stored_names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass but those with `field(metadata=NOT_STORED)`."""
    return tuple(field.name for field in _stored(kind))


@lru_cache
def _stored(kind: type) -> tuple[dataclasses.Field[Any], ...]:
    return tuple(field for field in dataclasses.fields(kind) if field.metadata != NOT_STORED)


def from_json(kind: Any, data: Any) -> Any:
    """The inverse of `to_json` for the types used in a plan.

    Raises KeyError, TypeError or ValueError on a missing, unknown or mistyped field, and for one that holds
    the default at which it is left out.
    """
    if kind is Any or (kind in LEAVES and type(data) is kind):
        return data
    if dataclasses.is_dataclass(kind):
        return _dataclass_from_json(typing.cast(type, kind), data)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return _tuple_from_json(args, data)
    if origin is not None and issubclass(origin, Mapping):
        return {key: from_json(args[1], item) for key, item in _expect(dict, data).items()}
    if isinstance(kind, types.UnionType):
        return _union_from_json(args, data)
    if kind is float:
        return float(_expect((int, float), data))
    return _expect(kind, data)


def _dataclass_from_json(kind: type, data: Any) -> Any:
    hints = _hints(kind)
    names = set(stored_names(kind))
    if unknown := set(_expect(dict, data)) - names:
        raise ValueError(f"unknown field {min(unknown)!r:.60} in {kind.__name__}")
    left_out = {f.name for f in _stored(kind) if f.metadata == AT_DEFAULT and f.name not in data}
    made = {name: _field_from_json(hints[name], name, data[name]) for name in names - left_out}
    if spelled := [f.name for f in _stored(kind) if f.name in made and omitted(f, made[f.name])]:
        raise ValueError(f"{spelled[0]} of {kind.__name__} is left out at its default")
    return kind(**made)


def _field_from_json(kind: Any, name: str, value: Any) -> Any:
    """Named in the error."""
    try:
        return from_json(kind, value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


_hints = lru_cache(typing.get_type_hints)  # resolving the annotations takes longer than reading the data


def _tuple_from_json(args: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    items = _expect(list, data)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(from_json(args[0], item) for item in items)
    if len(items) != len(args):
        raise ValueError(f"expected {len(args)} items, found {len(items)}")
    return tuple(from_json(arg, item) for arg, item in zip(args, items, strict=True))


def _union_from_json(args: tuple[Any, ...], data: Any) -> Any:
    """Nothing or one type; or one of several dataclasses with tags."""
    kinds = [arg for arg in args if arg is not type(None)]
    if data is None and len(kinds) < len(args):
        return None
    if len(kinds) == 1:
        return from_json(kinds[0], data)
    fields = dict(_expect(dict, data))
    tag = fields.pop("kind", None)
    for kind in kinds:
        if tag == kind.tag:
            return _dataclass_from_json(kind, fields)
    raise ValueError(f"kind {tag!r:.60}, expected one of {', '.join(kind.tag for kind in kinds)}")


def _expect(kind: Any, data: Any) -> Any:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise TypeError(f"expected {getattr(kind, '__name__', kind)}, found {type(data).__name__}")
    return data
