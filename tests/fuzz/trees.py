"""Mutations of JSON documents: one place of the tree becomes something else, and the whole is spelled
canonically again.

Single bytes changed at random nearly always give text that is no JSON any more, or not in its one
spelling; these reach what lies behind the parser.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 64, 2**31, 2**63, 10**40, -(2**64),
    0.0, -0.0, 0.5, 1e-300, 1e300, float("inf"), float("nan"),
    "", "x", "real", "published", "hidden", "\x1b[2J", "\ud800", "a" * 300,
    [], [[]], {}, {"x": 1}, [0.0, 1.0], [1.0, -1.0],
)  # fmt: skip
DEEP = 2000


def mutated(data: bytes, seed: int) -> bytes | None:
    """The document with one to three places changed; None for what is no JSON."""
    try:
        tree = json.loads(data)
        choose = random.Random(seed)
        for _ in range(choose.randint(1, 3)):
            tree = _changed(tree, choose)
        return json.dumps(tree, sort_keys=True, separators=(",", ":")).encode(errors="replace")
    except (ValueError, RecursionError, TypeError):
        return None


def _changed(tree: Any, choose: random.Random) -> Any:
    places = list(_places(tree)) if isinstance(tree, dict | list) else []
    if not places:
        return copy.deepcopy(choose.choice(ODD))
    parent, key = choose.choice(places)
    action = choose.randrange(6)
    if action == 0:
        del parent[key]
    elif action == 1 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    elif action == 2:
        other, place = choose.choice(places)
        parent[key] = copy.deepcopy(other[place])
    elif action == 3 and type(parent[key]) in (int, float):
        parent[key] = _near(parent[key], choose)
    elif action == 4 and choose.randrange(50) == 0:
        parent[key] = _nested()
    else:
        parent[key] = copy.deepcopy(choose.choice(ODD))  # a later change must not reach ODD itself
    return tree


def _places(tree: Any) -> Any:
    """(container, key or index) of everything in the tree."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        pairs = node.items() if isinstance(node, dict) else enumerate(node)
        for key, item in pairs:
            yield node, key
            if isinstance(item, dict | list):
                waiting.append(item)


def _near(value: float, choose: random.Random) -> float:
    return choose.choice([value + 1, value - 1, -value, value * 2, value * 1e6, value / 3])


def _nested() -> Any:
    tree: Any = 0
    for _ in range(DEEP):
        tree = [tree]
    return tree
