"""What every Python decoder promises: it returns, or raises one of Tacita's own errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tacita.errors import TacitaError

T = TypeVar("T")


def tacita_errors(decode: Callable[..., T], *arguments: Any) -> T | None:
    """What is decoded; None of what is refused. An error can be told."""
    try:
        return decode(*arguments)
    except TacitaError as error:
        str(error)
    return None
