"""Refuses a plan whose arithmetic leaves the range of doubles, in one line in place of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tacita.errors import PlanError


@contextmanager
def within_doubles(operation: str) -> Iterator[None]:
    """Wraps the making of a plan, also as a decorator. operation: named by the error.

    Raises PlanError in place of ArithmeticError and ValueError (what is not finite cannot be rounded, nor
    fitted to). A value that overflows on the way is left to the checks of the result, without a warning.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (ArithmeticError, ValueError) as error:
        raise PlanError(
            f"{operation}: values of the model leave the range of double precision ({error!s:.200})",
            hint="check the weights: scores or hidden states are far larger than those of a model that works",
        ) from error
