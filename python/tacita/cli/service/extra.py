"""What a command says where the packages of an extra are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tacita.errors import InputError


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around imports. Raises InputError that names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tacita"):
            raise
        raise InputError(f"{error.name} is not installed", hint=f"pip install 'tacita[{extra}]'") from None
