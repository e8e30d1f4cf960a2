"""JSON that anybody may have written -> plain data of bounded depth, with finite numbers and short printable
strings."""

from __future__ import annotations

import json
import math
from typing import Any

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
    """What a plan holds of a name: `?` for characters that cannot be shown, cut to the longest string that is
    read."""
    return "".join(c if c.isprintable() else "?" for c in name)[:MAX_STRING]


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no finite number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice in one object")
    return found


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
