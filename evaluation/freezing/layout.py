"""JSON for reading diffs: keys sorted, and each list or object that fits into a line stands in one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

WIDTH = 108


def to_text(value: Any) -> str:
    """The file's content. Floats keep all their digits."""
    return _spread(value, 0) + "\n"


def _spread(value: Any, depth: int) -> str:
    """value: at this depth, from its opening bracket on."""
    line = json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=False)
    if len(line) + depth <= WIDTH or not isinstance(value, list | Mapping):
        return line
    if isinstance(value, list):
        return _bracketed("[]", [_spread(item, depth + 1) for item in value], depth)
    items = [f"{json.dumps(key)}: {_spread(value[key], depth + 1)}" for key in sorted(value)]
    return _bracketed("{}", items, depth)


def _bracketed(brackets: str, items: list[str], depth: int) -> str:
    inside = ",\n".join(" " * (depth + 1) + item for item in items)
    return f"{brackets[0]}\n{inside}\n{' ' * depth}{brackets[1]}"
