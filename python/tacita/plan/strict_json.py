"""JSON that anybody may have written -> plain data of bounded depth, with finite numbers and short printable strings."""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DEPTH = 16  # a plan has 7
MAX_STRING = 200  # characters of a name, a label or a key
MAX_INTEGER = 1 << 53  # beyond it a float is not exact


def loads(text: str) -> Any:
    """Plain data of the text. Raises ValueError saying what is wrong; never another exception, whatever the text is.

    Refused beyond what is no JSON: NaN and infinities (1e999 is one), a key that comes twice, deep nesting, integers above
    2^53, strings that are long or hold control characters, which a terminal would obey.
    """
    try:
        data = json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check(data)
    return data


def printable(name: str) -> str:
    """What a plan holds of a name: `?` for characters that cannot be shown, cut to the longest string that is read."""
    return "".join(c if c.isprintable() else "?" for c in name)[:MAX_STRING]


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no finite number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice in one object")
    return found


def _check(data: Any) -> None:
    """Walks over everything without recursion."""
    todo = [(data, 1)]
    while todo:
        value, depth = todo.pop()
        if depth > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} deep")
        if isinstance(value, dict | list):
            todo += [(item, depth + 1) for item in (value.values() if isinstance(value, dict) else value)]
        for text in value if isinstance(value, dict) else [value]:
            _check_leaf(text)


def _check_leaf(value: Any) -> None:
    if isinstance(value, str) and (len(value) > MAX_STRING or not value.isprintable()):
        raise ValueError(f"a string of {len(value)} characters is long or not printable: {value[:20]!r}")
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ValueError("an integer above 2^53")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite")
