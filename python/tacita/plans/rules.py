"""Rules of what is accepted of a plan: what each is about, and whether it is kept, one after the other.

def _rules(plan: Plan) -> Rules:
    yield "tokens", 2 <= plan.tokens <= MAX_POSITIONS
    yield "lanes", plan.lanes in RULES[plan.packing].lanes    # a later rule may rely on an earlier one
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from tacita.errors import FileError

Rules = Iterable[tuple[str, bool]]
T = TypeVar("T")


def require(rules: Rules, where: str, *, hint: str, broken: str = "out of range") -> None:
    """Raises FileError naming the first rule that is not kept; later ones are not looked at. broken: what is
    said of it."""
    for what, good in rules:
        if not good:
            raise FileError(f"{where}: {what} {broken}", hint=hint)


def made(make: Callable[[], T], *refusals: type[Exception]) -> T | None:
    """What it makes; None where it refuses by one of these errors."""
    try:
        return make()
    except refusals:
        return None
