"""JSON that anybody may have written -> plain data of bounded depth, with finite numbers and short printable
strings."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tacita.extras import AT_DEFAULT, omitted

MAX_DEPTH = 16  # a plan has 7
MAX_STRING = 200  # characters of a name, a label or a key
MAX_INTEGER = 1 << 53  # beyond it a float is not exact


def loads(text: str) -> Any:
    """Plain data of the text. Raises ValueError saying what is wrong; never another exception, whatever the
    text is.

    Refused beyond what is no JSON: NaN and infinities (1e999 is one), a key that comes twice, deep nesting,
    integers above 2^53, strings that are long or hold control characters, which a terminal would obey.
    """
    try:
        data = json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check(data)
    return data


def printable(name: str) -> str:
    """What a plan holds of a name: `?` for what cannot be shown, cut to the longest string that is read."""
    return "".join(c if c.isprintable() else "?" for c in name)[:MAX_STRING]


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no finite number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a key comes twice in one object")
    return data


def _check(data: Any) -> None:
    """Walks over everything, one level after the other and without recursion.

    A plan has tens of thousands of values, nearly all of them small numbers: those are passed by at once.
    """
    level = [data]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for value in level:
            kind = type(value)
            if kind is list:
                below += value
            elif kind is dict:
                below += value.values()
                for key in value:
                    _check_leaf(key)
            elif kind is str or not -MAX_INTEGER <= (value or 0) <= MAX_INTEGER:
                _check_leaf(value)
        if not (level := below):
            return
    raise ValueError(f"nested more than {MAX_DEPTH} deep")


def _check_leaf(value: Any) -> None:
    if isinstance(value, str) and (len(value) > MAX_STRING or not value.isprintable()):
        raise ValueError(f"a string of {len(value)} characters is long or not printable: {value[:20]!r}")
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ValueError("an integer above 2^53")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite")


# Frozen dataclasses <-> plain JSON data, typed in every field.
#
#     to_json(TensorInfo("x", 1, 3, "real"))    # {"name": "x", "count": 1, "level": 3, "kind": "real"}
#
# A field that holds one of several dataclasses says which by the class's `tag`, written as "kind":
#
#     nodes: Mapping[str, AttentionCalibration | NormCalibration]    # {"layer0.norm1": {"kind": "norm", ...}}
#
# A dataclass with `from_plain` and `to_dict`, such as an approximation, reads and writes itself.

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
        if hasattr(type(value), "from_plain"):  # it writes itself
            return typing.cast(Any, value).to_dict()
        tag = getattr(type(value), "tag", None)
        fields = _stored(typing.cast(type, type(value)))
        values = {field.name: getattr(value, field.name) for field in fields}
        named = {f.name: to_json(values[f.name]) for f in fields if not omitted(f, values[f.name])}
        return {"kind": tag, **named} if tag else named
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return str(value) if isinstance(value, Path) else value


@lru_cache
def _stored(kind: type) -> tuple[dataclasses.Field[Any], ...]:
    """The fields of a dataclass but those with `field(metadata=NOT_STORED)`."""
    return tuple(field for field in dataclasses.fields(kind) if field.metadata != NOT_STORED)


def from_json(kind: Any, data: Any) -> Any:
    """The inverse of `to_json` for the types used in a plan.

    Raises KeyError, TypeError or ValueError on a missing, unknown or mistyped field, and for one that holds
    the default at which it is left out.
    """
    if kind is Any or (kind in LEAVES and type(data) is kind):
        return data
    if isinstance(kind, type) and "from_plain" in vars(kind):
        return kind.from_plain(data)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(kind):
        return _dataclass_from_json(typing.cast(type, kind), data)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return _tuple_from_json(args, data)
    if origin is not None and issubclass(origin, Mapping):
        return {key: _field_from_json(args[1], key, item) for key, item in _expect(dict, data).items()}
    if isinstance(kind, types.UnionType):
        return _union_from_json(args, data)
    if kind is float:
        return float(_expect((int, float), data))
    if kind is Path:
        return Path(_expect(str, data))
    return _expect(kind, data)


def _dataclass_from_json(kind: type, data: Any) -> Any:
    hints = _hints(kind)
    names = {field.name for field in _stored(kind)}
    if unknown := set(_expect(dict, data)) - names:
        raise ValueError(f"unknown field {min(unknown)!r:.60} in {kind.__name__}")
    left_out = {f.name for f in _stored(kind) if f.metadata == AT_DEFAULT and f.name not in data}
    values = {name: _field_from_json(hints[name], name, data[name]) for name in names - left_out}
    if spelled := [f.name for f in _stored(kind) if f.name in values and omitted(f, values[f.name])]:
        raise ValueError(f"{spelled[0]} of {kind.__name__} is left out at its default")
    return kind(**values)


def _field_from_json(kind: Any, name: str, value: Any) -> Any:
    """Converts one field, which an error names."""
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
