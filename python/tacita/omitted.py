"""Fields that a file leaves out where they hold their default, so that a new option changes no old file.

Plans (`plans.typed_json`) and the hash of a checkpoint (`checkpoint.load`) obey it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

AT_DEFAULT = {"left out": "at its default"}  # metadata of such a field


def omitted(field: dataclasses.Field[Any], value: Any) -> bool:
    """Whether a file that holds this value leaves the field out."""
    return field.metadata == AT_DEFAULT and bool(value == _default(field))


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
