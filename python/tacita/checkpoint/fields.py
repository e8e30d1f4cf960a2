"""config.json, field by field: each is checked as it is read, and refused with what it may be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tacita.checkpoint.files import read_json
from tacita.errors import CheckpointError
from tacita.front.front import ImageConfig
from tacita.front.limits import (
    MAX_CLASSES,
    MAX_HIDDEN,
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_STATED,
    MAX_TYPES,
    MAX_VOCAB,
)
from tacita.models.base import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from tacita.models.encoders.activations import BY_NAME

PROBLEMS = {
    "single_label_classification": SINGLE_LABEL,
    "multi_label_classification": MULTI_LABEL,
    "regression": REGRESSION,
}


@dataclass(frozen=True)
class Fields:
    """Of one file. Every function raises CheckpointError naming file, field, value and what is supported."""

    path: Path
    data: Mapping[str, Any]

    def integer(self, field: str, top: int, default: int | None = None, least: int = 1) -> int:
        """From `least` to `top`."""
        value = self.data.get(field, default)
        if type(value) is not int or not least <= value <= top:
            raise self.refused(field, f"it must be an integer from {least} to {top}")
        return value

    def number(self, field: str, default: float, low: float, high: float) -> float:
        """A number from `low` to `high`, as a float."""
        value = self.data.get(field, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.refused(field, f"it must be a number from {low:g} to {high:g}")
        return float(value)

    def flag(self, field: str, default: bool) -> bool:
        """True or false."""
        value = self.data.get(field, default)
        if not isinstance(value, bool):
            raise self.refused(field, "it must be true or false")
        return value

    def name(self, field: str, known: Collection[str], default: str) -> str:
        """One of `known`; `default`, which need not be one, where the field is absent or null."""
        value = self.data.get(field)
        if value is None:
            return default
        if not isinstance(value, str) or value not in known:
            raise self.refused(field, f"supported: {', '.join(known)}")
        return value

    def only(self, field: str, value: Any) -> None:
        """Refuses every value but one, which an absent field or null stands for."""
        found = self.data.get(field)
        if found is not None and (type(found) is not type(value) or found != value):
            raise self.refused(field, f"only {value!r} is supported")

    def layers(self, field: str) -> int:
        """Number of layers."""
        return self.integer(field, MAX_LAYERS)

    def width(self, field: str) -> int:
        """Features of hidden states."""
        return self.integer(field, MAX_HIDDEN)

    def wide(self, field: str) -> int:
        """Features inside a feed-forward block."""
        return self.integer(field, 4 * MAX_HIDDEN)

    def heads(self, field: str, width: str) -> int:
        """Heads that divide the width, which is another field."""
        heads, features = self.integer(field, MAX_HIDDEN), self.width(width)
        if features % heads:
            raise CheckpointError(
                f"{self.path}: {width} {features} is not a multiple of {field} {heads}",
                hint="the configuration does not belong to this model",
            )
        return heads

    def vocab(self, field: str) -> int:
        """Rows of the table of words."""
        return self.integer(field, MAX_VOCAB)

    def positions(self, field: str, first: int = 0) -> int:
        """Tokens that there are positions for, up to the most that a plan has: a longer table is cut."""
        return min(self.integer(field, MAX_STATED, least=first + 1) - first, MAX_POSITIONS)

    def types(self, field: str, default: int) -> int:
        """Rows of the table of token types; 0 without one."""
        return self.integer(field, MAX_TYPES, default, least=0)

    def activation(self, field: str, default: str) -> str:
        """Our name of it."""
        return BY_NAME[self.name(field, BY_NAME, default)]

    def epsilon(self, field: str, default: float) -> float:
        """What a LayerNorm adds to the variance."""
        return self.number(field, default, 0.0, 0.1)

    def labels(self) -> tuple[str, ...]:
        """id2label in id order; num_labels (default 2) when it is absent."""
        given = self.data.get("id2label")
        if not isinstance(given, dict):
            count = self.integer("num_labels", MAX_CLASSES, default=2)
            return tuple(f"LABEL_{i}" for i in range(count))
        if not 1 <= len(given) <= MAX_CLASSES or set(given) != {str(i) for i in range(len(given))}:
            raise CheckpointError(
                f"{self.path}: id2label has keys {sorted(given)[:8]}", hint="they must be 0..classes-1"
            )
        return tuple(str(given[str(i)]) for i in range(len(given)))

    def problem(self, labels: int) -> str:
        """What scores of labels mean. As in transformers, a single score without a word about it is a
        number."""
        default = "regression" if labels == 1 else "single_label_classification"
        return PROBLEMS[self.name("problem_type", PROBLEMS, default)]

    def part(self, field: str) -> Fields | None:
        """The object that a field holds; None where it is absent or null."""
        value = self.data.get(field)
        if value is not None and not isinstance(value, dict):
            raise self.refused(field, "it must be an object")
        return None if value is None else Fields(self.path, value)

    def numbers(self, field: str, default: tuple[float, ...], low: float, high: float) -> tuple[float, ...]:
        """As many as the default has."""
        values = self.data.get(field)
        if values is None:
            return default
        if not isinstance(values, list) or len(values) != len(default):
            raise self.refused(field, f"it must hold {len(default)} numbers")
        each = [Fields(self.path, {field: value}) for value in values]
        return tuple(of.number(field, 0.0, low, high) for of in each)

    def beside(self, name: str) -> Fields | None:
        """Those of another file of the folder; None without it."""
        path = self.path.parent / name
        return Fields(path, read_json(path)) if path.is_file() else None

    def image(self, extra: int, *, any_size: bool = False) -> ImageConfig:
        """Of a model of images; see `checkpoint.images`."""
        from tacita.checkpoint.images import read_image

        return read_image(self, extra, any_size=any_size)

    def refuse(self, field: str, hint: str) -> NoReturn:
        """Raises `refused`."""
        raise self.refused(field, hint)

    def refused(self, field: str, hint: str) -> CheckpointError:
        """The error that names a field and its value."""
        return CheckpointError(f"{self.path}: {field} is {self.data.get(field)!r:.200}", hint=hint)
