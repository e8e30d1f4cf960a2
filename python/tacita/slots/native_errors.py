"""The engine's exceptions as ours: every call on the native evaluator goes through here."""

from __future__ import annotations

import importlib
from typing import Any

from tacita.errors import KeyMissingError, LevelError, ShapeError, TacitaError


class Translating:
    """Wraps a native object; its methods raise LevelError, KeyMissingError or ShapeError instead of native
    errors."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any) -> Any:
            native = importlib.import_module("tacita._native")
            try:
                return found(*args)
            except native.TacitaError as error:
                raise translate(native, error) from error

        return call


def translate(native: Any, error: Exception) -> TacitaError:
    """Our error for one of the engine's, message and hint apart."""
    text, _, hint = str(error).partition("; hint: ")
    if isinstance(error, native.LevelError):
        return LevelError(text, hint=hint)
    if isinstance(error, native.KeyMissingError):
        return KeyMissingError(text, hint=hint)
    return ShapeError(text, hint=hint)
