"""The compiled module, loaded when it is first asked for, so that plain and sim work where it was not built.

>>> from tacita import compiled
>>> compiled.native.Parameters.preset("n16").log_n
16

`native` is `tacita._native`, and type checkers know it as that (`_native.pyi`). Asking for it raises
TacitaError when the module was not built or does not start.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from tacita.errors import TacitaError

if TYPE_CHECKING:
    from tacita import _native

    native = _native
else:

    def __getattr__(name: str) -> ModuleType:
        if name == "native":
            return _loaded()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _loaded() -> ModuleType:
    try:
        return importlib.import_module("tacita._native")
    except ModuleNotFoundError as error:
        raise TacitaError(f"the native engine is not built ({error})", hint="run `make setup`") from error
    except ImportError as error:
        text, _, hint = str(error).partition("; hint: ")
        hint = hint or "run `make setup` again"
        raise TacitaError(f"the native engine does not start: {text}", hint=hint) from error
