"""Numbers that are the answer themselves, as of a model that grades how alike two sentences are.

>>> regression(("LABEL_0",), (3.254,), ()).told
'LABEL_0 3.254'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacita.tasks.answer import Answer, Score


@dataclass(frozen=True, repr=False)
class Regression(Answer):
    """names: of the numbers, in the order of the logits. label: None."""

    names: tuple[str, ...] = ()

    @property
    def values(self) -> dict[str, float]:
        """The numbers by name."""
        return dict(zip(self.names, self.logits, strict=True))

    @property
    def scores(self) -> tuple[Score, ...]:
        """The numbers as scores, in the order of the logits."""
        return tuple(Score(name, value) for name, value in self.values.items())

    @property
    def told(self) -> str:
        """Each name with its number."""
        return ", ".join(f"{name} {value:.3f}" for name, value in self.values.items())

    def fields(self) -> dict[str, Any]:
        """With the numbers by name."""
        return {**super().fields(), "values": self.values}


def regression(labels: tuple[str, ...], logits: tuple[float, ...], warnings: tuple[str, ...]) -> Regression:
    """The rounded numbers as they are."""
    return Regression(None, logits, warnings, labels)
